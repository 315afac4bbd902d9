// The producer warps: schedule tiles and load their queries, keys and values.
#pragma once
#include "../common/order.cuh"
#include "tiles.cuh"

constexpr uint32_t kEveryLane = 0xffffffffu;

// Bytes of keys and values of rows that are scheduled together (they stay in L2).
constexpr uint32_t kCached = 16 << 20;

// Tile order: groups of rows, small enough that their keys and values stay in L2, long rows first. Within a group the last
// tile of each row first, as it sees most; then the ones before.
template <int kDim>
struct Schedule {
    const TilesParams& p;
    typename TileShape<kDim>::Control* control;
    uint32_t level = 0;
    uint32_t level_begin = 0;
    uint32_t level_rows = 0;
    // The current group of rows.
    uint32_t first = 0;
    uint32_t last = 0;

    __device__ Schedule(const TilesParams& params, typename TileShape<kDim>::Control* shared) : p(params), control(shared) {
        enter(0);
    }

    // Lists the rows with tiles, those first that have at least half as many positions as the longest one; called by one warp.
    __device__ static void list(const TilesParams& p, typename TileShape<kDim>::Control* control) {
        const uint32_t lane = threadIdx.x % 32;
        uint32_t longest = 0, listed = 0;
        for (uint32_t row = lane; row < p.attend.rows; row += 32) {
            const Sequence sequence = Sequence::load(p.attend, row);
            if (has_tiles(p, row, sequence)) longest = max(longest, sequence.length);
        }
        longest = __reduce_max_sync(kEveryLane, longest);
        for (int turn = 0; turn < 2; ++turn) {
            for (uint32_t first = 0; first < p.attend.rows; first += 32) {
                const Sequence sequence = Sequence::load(p.attend, first + lane);
                const bool has = has_tiles(p, first + lane, sequence) && (sequence.length < longest / 2) == (turn == 1);
                const uint32_t mask = __ballot_sync(kEveryLane, has);
                if (has) {
                    const uint32_t at = listed + __popc(mask & ((1u << lane) - 1));
                    control->rows[at] = static_cast<uint16_t>(first + lane);
                    control->blocks[at] = static_cast<uint16_t>((sequence.fresh + p.tokens - 1) / p.tokens);
                }
                listed += __popc(mask);
            }
        }
        control->listed = listed;
        control->longest = longest;
        __syncwarp();
    }

    // Schedules this block's tiles, one ahead of the current one; the last one has no blocks.
    __device__ void run() {
        FixedPipelineState<2> at;
        // All buffers are free at first.
        at.parity = 1;
        // The first tile is known without the counter.
        uint32_t number = blockIdx.x;
        for (;;) {
            const Tile tile = find_tile(number);
            if (threadIdx.x % 32 == 0) {
                control->tiles[at.index] = tile;
                control->tile_full[at.index].arrive();
            }
            if (tile.end == 0) return;
            at.advance();
            control->tile_empty[at.index].wait(at.parity);
            if (threadIdx.x % 32 == 0) number = gridDim.x + atomicAdd(p.taken, 1u);
            number = __shfl_sync(kEveryLane, number, 0);
        }
    }

private:
    __device__ static bool has_tiles(const TilesParams& p, uint32_t row, const Sequence& sequence) {
        if (sequence.fresh <= p.attend.few) return false;
        return !p.widened || p.attend.table_rows[row] != kNowhere;
    }

    // Numbers only rise.
    __device__ Tile find_tile(uint32_t number) {
        const AttendParams& a = p.attend;
        while (level_rows > 0 && number >= level_begin + level_rows * a.kv_heads) {
            level_begin += level_rows * a.kv_heads;
            level_rows = count(++level);
            if (level_rows == 0) enter(last);
        }
        Tile tile{};
        if (level_rows == 0) return tile;
        const uint32_t entry = find((number - level_begin) / a.kv_heads);
        const Sequence sequence = Sequence::load(a, control->rows[entry]);
        const uint32_t before = (control->blocks[entry] - 1 - level) * p.tokens;
        tile.head = (number - level_begin) % a.kv_heads;
        tile.first_token = sequence.first_token + before;
        tile.tokens = min(sequence.fresh - before, p.tokens);
        tile.position = sequence.old() + before;
        tile.length = sequence.length;
        const uint32_t reach = tile.position + 1, oldest = reach > a.window ? reach - a.window : 0;
        tile.begin = oldest / TileShape<kDim>::kKeys;
        tile.end = (tile.position + tile.tokens - 1) / TileShape<kDim>::kKeys + 1;
        tile.pages = static_cast<uint32_t>(sequence.pages - a.page_table);
        return tile;
    }

    // Goes on to the group of rows from `row` on.
    __device__ void enter(uint32_t row) {
        const uint32_t positions = kCached / (4 * p.attend.kv_heads * p.attend.head_dim);
        first = row;
        last = min(row + max(1u, positions / max(control->longest, 1u)), control->listed);
        level = 0;
        level_rows = count(0);
    }

    // Rows that have a tile at this level.
    __device__ uint32_t count(uint32_t at) const {
        uint32_t rows = 0;
        for (uint32_t some = first; some < last; some += 32) {
            const uint32_t entry = some + threadIdx.x % 32;
            rows += __popc(__ballot_sync(kEveryLane, entry < last && control->blocks[entry] > at));
        }
        return rows;
    }

    // The entry of the list with rank `rank` among those.
    __device__ uint32_t find(uint32_t rank) const {
        for (uint32_t some = first;; some += 32) {
            const uint32_t entry = some + threadIdx.x % 32;
            uint32_t mask = __ballot_sync(kEveryLane, entry < last && control->blocks[entry] > level);
            const uint32_t here = __popc(mask);
            if (rank < here) {
                for (; rank > 0; --rank) mask &= mask - 1;
                return some + __ffs(static_cast<int>(mask)) - 1;
            }
            rank -= here;
        }
    }
};

// Two warps: one loads queries and keys, the other values; neither waits for a buffer that the other one needs.
template <int kDim>
struct Producer {
    using Shape = TileShape<kDim>;
    const TilesParams& p;
    const Shape& shape;
    FixedPipelineState<Shape::kStages> at;
    FixedPipelineState<2> tile_at;
    FixedPipelineState<Shape::kQueries> query_at;

    __device__ Producer(const TilesParams& params, const Shape& shared) : p(params), shape(shared) {
        // All buffers are free at first.
        at.parity = query_at.parity = 1;
    }

    __device__ void bring_keys() {
        for (Tile tile = next(); tile.end > 0; tile = next()) {
            fetch_query(tile);
            for (uint32_t block = tile.end; block > tile.begin; --block) {
                fetch(tile, block - 1, &p.keys, shape.keys, shape.control->keys_full, shape.control->keys_empty);
            }
        }
    }

    __device__ void bring_values() {
        for (Tile tile = next(); tile.end > 0; tile = next()) {
            for (uint32_t block = tile.end; block > tile.begin; --block) {
                fetch(tile, block - 1, &p.values, shape.values, shape.control->values_full, shape.control->values_empty);
            }
        }
    }

private:
    __device__ Tile next() {
        shape.control->tile_full[tile_at.index].wait(tile_at.parity);
        const Tile tile = shape.control->tiles[tile_at.index];
        shape.control->tile_empty[tile_at.index].arrive();
        tile_at.advance();
        return tile;
    }

    __device__ void fetch_query(const Tile& tile) {
        Barrier* full = &shape.control->query_full[query_at.index];
        uint8_t* to = shape.query + query_at.index * Shape::kQueryBytes;
        shape.control->query_empty[query_at.index].wait(query_at.parity);
        if (threadIdx.x % 32 == 0) {
            full->arrive_and_expect_tx(Shape::kSlices * p.tokens * p.attend.group * kSlice * 2);
            for (int slice = 0; slice < Shape::kSlices; ++slice) {
                tma_load(to + slice * kTileRows * kSlice * 2, &p.query, full, slice * kSlice,
                         tile.head * p.attend.group, tile.first_token);
            }
        }
        __syncwarp();
        query_at.advance();
    }

    // One block of keys or values, by runs, since a run never crosses a page.
    __device__ void fetch(const Tile& tile, uint32_t block, const TensorMap* map, uint8_t* ring, Barrier* full, Barrier* empty) {
        const uint32_t first = block * Shape::kKeys, lane = threadIdx.x % 32;
        const uint32_t runs = (min(tile.length - first, static_cast<uint32_t>(Shape::kKeys)) + p.run - 1) / p.run;
        uint8_t* to = ring + at.index * Shape::kKeyBytes;
        const auto slot_of = [&](uint32_t run) {
            const uint32_t position = first + run * p.run, size = p.attend.page_size;
            const uint32_t number = tile.pages + position / size;
            return (p.widened ? number : p.attend.page_table[number]) * size + position % size;
        };
        // Slots are looked up while the buffer is still in use.
        const uint32_t own = lane < runs ? slot_of(lane) : 0;
        empty[at.index].wait(at.parity);
        if (lane == 0) full[at.index].arrive_and_expect_tx(runs * p.run * kDim * 2);
        __syncwarp();
        for (uint32_t run = lane; run < runs; run += 32) {
            const uint32_t slot = run == lane ? own : slot_of(run);
            for (int slice = 0; slice < Shape::kSlices; ++slice) {
                tma_load(to + (slice * Shape::kKeys + run * p.run) * kSlice * 2, map, &full[at.index], slice * kSlice,
                         tile.head, slot);
            }
        }
        __syncwarp();
        at.advance();
    }
};
