// Shared by the parts of `attend_tiles`: the shape of a tile, its description, the layout of shared memory.
//
// A tile is up to 128 rows of queries that share a KV head: tokens of one sequence, times the heads of a group. It visits key
// blocks from the last visible position to the first.
#pragma once
#include "../common/pipeline_state.cuh"
#include "../common/room.cuh"
#include "../common/tma.cuh"
#include "params.cuh"

struct TilesParams {
    TensorMap query;
    TensorMap keys;
    TensorMap values;
    AttendParams attend;
    // Tokens in a tile, and positions that one copy brings.
    uint32_t tokens;
    uint32_t run;
    // The next tile, and how many blocks have ended.
    uint32_t* taken;
    // e4m3 caches are widened first; `table_rows` then has page offsets (`widened.cuh`) instead of page table rows.
    uint32_t widened;
};

constexpr int kTileRows = 128;
constexpr int kSlice = 64;
constexpr uint32_t kMostRows = 2048;

// A tile, as the consumers need it.
struct Tile {
    // Its first token in the batch, its token count, and the position of its first token.
    uint32_t first_token;
    uint32_t tokens;
    uint32_t position;
    uint32_t length;
    uint32_t head;
    // Its key blocks; none when there is no tile left.
    uint32_t begin;
    uint32_t end;
    // Its page list.
    uint32_t pages;
};

template <int kDim>
struct TileShape {
    static constexpr int kKeys = kDim <= 128 ? 128 : 64;
    static constexpr int kSlices = kDim / kSlice;
    static constexpr int kStages = 2;
    // With two, the next tile's queries are loaded while this one is computed.
    static constexpr int kQueries = kDim <= 128 ? 2 : 1;
    static constexpr int kQueryBytes = kTileRows * kDim * 2;
    static constexpr int kKeyBytes = kKeys * kDim * 2;
    static constexpr int kThreads = 384;

    struct Control {
        Barrier query_full[kQueries];
        Barrier query_empty[kQueries];
        Barrier keys_full[kStages];
        Barrier keys_empty[kStages];
        Barrier values_full[kStages];
        Barrier values_empty[kStages];
        Barrier tile_full[2];
        Barrier tile_empty[2];
        Tile tiles[2];
        // Rows with tiles, how many each has, and the most positions of one of them.
        uint32_t listed;
        uint32_t longest;
        uint16_t rows[kMostRows];
        uint16_t blocks[kMostRows];

        // Not inlined: the MMA loop would lose registers.
        __device__ __noinline__ void init() {
            for (int i = 0; i < kQueries; ++i) {
                query_full[i].init(1);
                // Each warp has rows of its own.
                query_empty[i].init(8);
            }
            for (int i = 0; i < kStages; ++i) {
                keys_full[i].init(1);
                keys_empty[i].init(2);
                values_full[i].init(1);
                values_empty[i].init(2);
                tile_full[i].init(1);
                // All readers of a tile arrive here.
                tile_empty[i].init(256 + 2 * 32);
            }
        }
    };

    static_assert(kQueries * kQueryBytes + 2 * kStages * kKeyBytes + sizeof(Control) <= kWholeRoom, "fits");

    uint8_t* query;
    uint8_t* keys;
    uint8_t* values;
    Control* control;

    __device__ explicit TileShape(uint8_t* shared)
        : query(shared), keys(query + kQueries * kQueryBytes), values(keys + kStages * kKeyBytes),
          control(reinterpret_cast<Control*>(values + kStages * kKeyBytes)) {}
};
