// Shared by the parts of `attend_stream`: parameters, the ring of keys and values, the layout of shared memory.
//
// A unit is 128 positions of one KV head. Eight warps score sixteen positions each, agree on the maxima and exchange the weights
// through shared memory; then each warp multiplies the values of its own elements, so that no sum is shared between warps.
#pragma once
#include "../common/pipeline_state.cuh"
#include "../common/room.cuh"
#include "../common/tma.cuh"
#include "cursor.cuh"

// Runs of positions whose slots a plan has.
constexpr uint32_t kPlannedRuns = 16;

// A worker's plan, made once for all layers that have the same batch. Work is counted in units.
struct alignas(128) StreamPlan {
    // Begin of the worker's first row and column block; not before the end where there is nothing to do.
    uint32_t origin;
    uint32_t end;
    uint32_t first_token;
    uint32_t block;
    // The rest of the row: new tokens, length, its row of the page table, and its number.
    uint32_t fresh;
    uint32_t length;
    uint32_t pages;
    uint32_t row;
    // Begin of the first chunk, and the row's name where several blocks share it.
    uint32_t begin;
    uint32_t name;
    uint32_t unused[6];
    // Slots of the runs of the first units, as many as fit; each has at most sixteen.
    uint32_t slots[kPlannedRuns];
};

struct StreamParams {
    // Tensor maps of keys and values: tiles of whole runs, and swizzle atoms.
    TensorMap cached[2][2];
    AttendParams attend;
    FreshParams fresh;
    // Of each worker; written before the previous kernel has ended.
    const StreamPlan* plans;
    // Positions that one copy brings.
    uint32_t run;
    // 2³¹ divided by the group and by the number of KV heads, rounded up.
    uint32_t by_group;
    uint32_t by_heads;

    __device__ uint32_t worker_of(uint32_t block) const { return static_cast<uint64_t>(block) * by_heads >> 31; }
    // The new token of a column, and its head in the group.
    __device__ uint32_t token_of(uint32_t column) const { return static_cast<uint64_t>(column) * by_group >> 31; }
    __device__ uint32_t head_of(uint32_t column) const { return column - token_of(column) * attend.group; }
};

// A worker's plan, loaded by its threads before anything else.
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
// Positions of a swizzle atom, the smallest copy: eight rows.
constexpr uint32_t kAtomRows = 8;
constexpr int kGroupColumns = 8;
constexpr int kWarps = kUnit / kTile;
constexpr int kComputing = 32 * kWarps;
constexpr int kThreads = kComputing + 32;
constexpr uint32_t kAllLanes = 0xffffffffu;
// The named barrier of the computing warps.
constexpr uint32_t kMeeting = 1;

// What the producer warp knows about a unit, for the computing warps.
struct alignas(16) Unit {
    // Flags, visible positions of the unit (begin, end), and columns that belong to queries; a byte each.
    uint32_t bits;
    // Its first position, and that of the sequence's first new token.
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

// A row shared between blocks, as far as this block knows it: all chunks, chunks done here, chunks already merged here
// because the row begins with them, and the row's name.
struct SharedRow {
    uint32_t first_token;
    uint32_t first_column;
    uint32_t used;
    uint32_t chunks;
    uint32_t done;
    uint32_t added;
    uint32_t slot;
};

// `kSingle`: one block per SM.
template <int kHeadDim, int kQueryColumns, typename CacheElement, bool kSingle>
struct StreamShape {
    using Kv = CacheElement;
    static constexpr int kDim = kHeadDim;
    static constexpr int kColumns = kQueryColumns;
    static constexpr int kElement = sizeof(Kv);
    static constexpr bool kNarrow = kElement == 1;
    static constexpr int kGroups = kColumns / kGroupColumns;
    // Rows are cut into slices of 128 bytes, with the 128-byte swizzle.
    static constexpr int kSlices = kDim * kElement / 128;
    static constexpr int kSliceBytes = kHalf * 128;
    static constexpr int kBuffer = kSlices * kSliceBytes;
    // Two blocks per SM, one for the widest heads.
    static constexpr int kBlocks = kBuffer <= 16384 && !kSingle ? 2 : 1;
    static constexpr int kRoom = kBlocks == 2 ? kHalfRoom : kWholeRoom;
    static constexpr int kMostBuffers = 12;
    // The widest heads leave no room for norm weights beside a ring of six buffers.
    static constexpr bool kKeepsNorms = kBlocks == 1 || kDim * kColumns <= 2048;

    struct alignas(16) Control {
        Barrier full[kMostBuffers];
        Barrier empty[kMostBuffers];
        float maxima[kColumns][kWarps];
        // Weights of a tile as operand B.
        uint2 weights[kGroups][kWarps][32];
        // Padded by eight elements: rows begin in different banks.
        bf16 query[kColumns][kDim + 8];
        // The new token's key and value, in the cache's element type.
        alignas(16) uint8_t key[kDim * kElement];
        alignas(16) uint8_t value[kDim * kElement];
        // The next row's heads as the QKV GEMM left them, and their RoPE angles.
        alignas(16) bf16 raw_key[kDim];
        alignas(16) bf16 raw_value[kDim];
        alignas(16) float angles[kDim];
        // Weights of the query norm and of the key norm.
        alignas(16) float norms[2][kKeepsNorms ? kDim : 4];
        Unit units[kUnitsKnown];
        // Only the first and the last row of a block's share can be shared with others.
        SharedRow shared_rows[2];
        // Merged chunks at the row's begin, where all are done; else none.
        uint32_t added[2];
    };

    static constexpr int kFit = (kRoom - static_cast<int>(sizeof(Control))) / kBuffer;
    static constexpr int kBuffers = kFit < kMostBuffers ? kFit : kMostBuffers;
    static_assert(kBuffers >= 6, "something is on its way while keys and values are used");

    uint8_t* ring;
    Control* control;

    __device__ explicit StreamShape(uint8_t* shared)
        : ring(shared), control(reinterpret_cast<Control*>(shared + kBuffers * kBuffer)) {}

    // Swizzled offset of a 16-byte vector of a row in a buffer.
    __device__ static uint32_t place(uint32_t row, uint32_t vector) {
        return vector / 8 * kSliceBytes + row * 128 + (vector % 8 ^ row % 8) * 16;
    }
};
