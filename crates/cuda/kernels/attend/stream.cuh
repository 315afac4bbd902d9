// What the parts of `attend_stream` share: parameters, the ring of keys and values, and where things lie.
//
// A unit is 128 positions of one key head. Eight warps score sixteen positions each; they agree on the largest scores,
// show each other the weights, and each mixes the values of its own elements: no warp adds to what another one sums.
#pragma once
#include "../common/ring_place.cuh"
#include "../common/room.cuh"
#include "../common/tma.cuh"
#include "cursor.cuh"

// Runs of positions whose places a plan has.
constexpr uint32_t kPlannedRuns = 16;

// What a worker does, found once for all layers that have the same batch. Work is counted in units.
struct alignas(128) StreamPlan {
    // Where the row and block of columns begin in which it begins; not before the end where there is nothing to do.
    uint32_t origin;
    uint32_t end;
    uint32_t first_token;
    uint32_t block;
    // The rest of the row: how many new tokens, its length, where the table of pages has it, and its number.
    uint32_t fresh;
    uint32_t length;
    uint32_t pages;
    uint32_t row;
    // Where the first chunk begins, and the row's name where several blocks share it.
    uint32_t begin;
    uint32_t name;
    uint32_t unused[6];
    // Of each run of the first units, as many as there is room for; none has more than sixteen.
    uint32_t slots[kPlannedRuns];
};

struct StreamParams {
    // Keys and values in boxes of whole runs, and in those of pieces.
    TensorMap cached[2][2];
    AttendParams attend;
    FreshParams fresh;
    // Of each worker; nobody writes them before this kernel has ended.
    const StreamPlan* plans;
    // Positions that one copy brings.
    uint32_t run;
    // 2³¹ by the group and by the number of key heads, rounded up.
    uint32_t by_group;
    uint32_t by_heads;

    __device__ uint32_t worker_of(uint32_t block) const { return static_cast<uint64_t>(block) * by_heads >> 31; }
    // The number of the new token that a column belongs to, and of its head in the group.
    __device__ uint32_t token_of(uint32_t column) const { return static_cast<uint64_t>(column) * by_group >> 31; }
    __device__ uint32_t head_of(uint32_t column) const { return column - token_of(column) * attend.group; }
};

// A worker's plan as its threads ask for it, before anything else.
struct StreamStart {
    uint4 place;
    uint4 rest;
    uint2 first;
    uint32_t slot;

    __device__ explicit StreamStart(const StreamPlan& plan) {
        const uint4* header = reinterpret_cast<const uint4*>(&plan);
        place = __ldcg(header);
        rest = __ldcg(header + 1);
        first = __ldcg(reinterpret_cast<const uint2*>(header + 2));
        slot = __ldcg(plan.slots + threadIdx.x % kPlannedRuns);
    }
};

constexpr int kTile = 16;
// Positions of a buffer: half a unit.
constexpr uint32_t kHalf = kUnit / 2;
// Positions of the smallest copy: swizzling turns rows of eight.
constexpr uint32_t kPiece = 8;
constexpr int kGroupColumns = 8;
constexpr int kWarps = kUnit / kTile;
constexpr int kComputing = 32 * kWarps;
constexpr int kThreads = kComputing + 32;
constexpr uint32_t kAllLanes = 0xffffffffu;
// The numbered barrier of the warps that compute.
constexpr uint32_t kMeeting = 1;

// What there is to know about a unit: made by the warp that fetches it, for those that compute.
struct alignas(16) Unit {
    // Flags, the positions seen of the unit from begin to end, and columns that belong to queries; a byte each.
    uint32_t bits;
    // Its first position, and where the sequence's first new token stands.
    uint32_t first;
    uint32_t old;
    // The number of its chunk in the row.
    uint32_t chunk;
    uint32_t first_token;
    uint32_t first_column;
    // The row's name where several blocks share it, else `kAlone`.
    uint32_t slot;
    uint32_t unused;

    __device__ bool has(uint32_t flag) const { return bits & flag; }
    __device__ uint32_t begin() const { return bits >> 8 & 0xff; }
    __device__ uint32_t end() const { return bits >> 16 & 0xff; }
    __device__ uint32_t used() const { return bits >> 24; }
};

constexpr uint32_t kOpensRow = 1, kHasNewest = 2, kBeginsChunk = 4, kEndsChunk = 8, kEndsRow = 16, kAddsUp = 32, kIsEdge = 64,
                   kIsLast = 128;
constexpr int kUnitsKnown = 4;
constexpr uint32_t kAlone = 0xffffffffu;

// A row that blocks share, as far as this block goes: chunks in all, how many of them are done here, how many of those
// this block has added up because the row begins with them, and the row's name.
struct SharedRow {
    uint32_t first_token;
    uint32_t first_column;
    uint32_t used;
    uint32_t chunks;
    uint32_t done;
    uint32_t added;
    uint32_t slot;
};

// `kSingle`: the block has its multiprocessor for itself.
template <int kHeadDim, int kQueryColumns, typename CacheElement, bool kSingle>
struct StreamShape {
    using Kv = CacheElement;
    static constexpr int kDim = kHeadDim;
    static constexpr int kColumns = kQueryColumns;
    static constexpr int kElement = sizeof(Kv);
    static constexpr bool kNarrow = kElement == 1;
    static constexpr int kGroups = kColumns / kGroupColumns;
    // Rows are cut into pieces of 128 bytes, turned by swizzling.
    static constexpr int kSlices = kDim * kElement / 128;
    static constexpr int kSliceBytes = kHalf * 128;
    static constexpr int kBuffer = kSlices * kSliceBytes;
    // Two blocks a multiprocessor, one for the widest heads.
    static constexpr int kBlocks = kBuffer <= 16384 && !kSingle ? 2 : 1;
    static constexpr int kRoom = kBlocks == 2 ? kHalfRoom : kWholeRoom;
    static constexpr int kMostBuffers = 12;
    // The largest one has no room for weights of norms beside a ring of six buffers.
    static constexpr bool kKeepsNorms = kBlocks == 1 || kDim * kColumns <= 2048;

    struct alignas(16) Control {
        Barrier full[kMostBuffers];
        Barrier empty[kMostBuffers];
        float maxima[kColumns][kWarps];
        // Weights of a tile as the second factor of a product.
        uint2 weights[kGroups][kWarps][32];
        // Eight more elements: rows begin in different banks.
        bf16 query[kColumns][kDim + 8];
        // The new token's, as they are stored.
        alignas(16) uint8_t key[kDim * kElement];
        alignas(16) uint8_t value[kDim * kElement];
        // The next row's, as they left the projection, and how they are rotated.
        alignas(16) bf16 raw_key[kDim];
        alignas(16) bf16 raw_value[kDim];
        alignas(16) float angles[kDim];
        // Weights of queries' norm and of keys'.
        alignas(16) float norms[2][kKeepsNorms ? kDim : 4];
        Unit units[kUnitsKnown];
        // Only the first and the last row of a block's share can be shared with others.
        SharedRow shared_rows[2];
        // Chunks that came added up where all are done, else none.
        uint32_t added[2];
    };

    static constexpr int kFit = (kRoom - static_cast<int>(sizeof(Control))) / kBuffer;
    static constexpr int kBuffers = kFit < kMostBuffers ? kFit : kMostBuffers;
    static_assert(kBuffers >= 6, "something is on its way while keys and values are used");

    uint8_t* ring;
    Control* control;

    __device__ explicit StreamShape(uint8_t* shared)
        : ring(shared), control(reinterpret_cast<Control*>(shared + kBuffers * kBuffer)) {}

    // Where a 16-byte piece of a row lies in a buffer.
    __device__ static uint32_t place(uint32_t row, uint32_t piece) {
        return piece / 8 * kSliceBytes + row * 128 + (piece % 8 ^ row % 8) * 16;
    }
};
