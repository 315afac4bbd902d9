// The warp that hands out tiles and keeps their queries, keys and values coming.
#pragma once
#include "../common/order.cuh"
#include "tiles.cuh"

constexpr uint32_t kEveryLane = 0xffffffffu;

// The order of tiles: the last tile of every sequence first, as those see most; then the ones before.
template <int kDim>
struct Schedule {
    const TilesParams& p;
    typename TileShape<kDim>::Control* control;
    uint32_t level = 0;
    uint32_t level_begin = 0;
    uint32_t level_rows = 0;

    __device__ Schedule(const TilesParams& params, typename TileShape<kDim>::Control* shared) : p(params), control(shared) {
        level_rows = count(0);
    }

    // Lists the rows that have tiles; called by one warp.
    __device__ static void list(const TilesParams& p, typename TileShape<kDim>::Control* control) {
        const uint32_t lane = threadIdx.x % 32;
        uint32_t listed = 0;
        for (uint32_t first = 0; first < p.attend.rows; first += 32) {
            const uint32_t fresh = Sequence::load(p.attend, first + lane).fresh;
            const bool has = fresh > p.attend.few;
            const uint32_t mask = __ballot_sync(kEveryLane, has);
            if (has) {
                const uint32_t at = listed + __popc(mask & ((1u << lane) - 1));
                control->rows[at] = static_cast<uint16_t>(first + lane);
                control->blocks[at] = static_cast<uint16_t>((fresh + p.tokens - 1) / p.tokens);
            }
            listed += __popc(mask);
        }
        control->listed = listed;
        __syncwarp();
    }

    // The next tile of this block; `end` is zero when there is none.
    __device__ Tile next(Sequence& sequence) {
        const AttendParams& a = p.attend;
        uint32_t taken = 0;
        if (threadIdx.x % 32 == 0) taken = atomicAdd(p.taken, 1u);
        taken = __shfl_sync(kEveryLane, taken, 0);
        while (level_rows > 0 && taken >= level_begin + level_rows * a.kv_heads) {
            level_begin += level_rows * a.kv_heads;
            level_rows = count(++level);
        }
        Tile tile{};
        if (level_rows == 0) return tile;
        const uint32_t entry = find((taken - level_begin) / a.kv_heads);
        sequence = Sequence::load(a, control->rows[entry]);
        const uint32_t before = (control->blocks[entry] - 1 - level) * p.tokens;
        tile.head = (taken - level_begin) % a.kv_heads;
        tile.first_token = sequence.first_token + before;
        tile.tokens = min(sequence.fresh - before, p.tokens);
        tile.position = sequence.old() + before;
        tile.length = sequence.length;
        const uint32_t reach = tile.position + 1, oldest = reach > a.window ? reach - a.window : 0;
        tile.begin = oldest / TileShape<kDim>::kKeys;
        tile.end = (tile.position + tile.tokens - 1) / TileShape<kDim>::kKeys + 1;
        return tile;
    }

private:
    // Rows that have a tile at this level.
    __device__ uint32_t count(uint32_t at) const {
        uint32_t rows = 0;
        for (uint32_t first = 0; first < control->listed; first += 32) {
            const uint32_t entry = first + threadIdx.x % 32;
            rows += __popc(__ballot_sync(kEveryLane, entry < control->listed && control->blocks[entry] > at));
        }
        return rows;
    }

    // The entry of the list that is number `rank` among those.
    __device__ uint32_t find(uint32_t rank) const {
        for (uint32_t first = 0;; first += 32) {
            const uint32_t entry = first + threadIdx.x % 32;
            uint32_t mask = __ballot_sync(kEveryLane, entry < control->listed && control->blocks[entry] > level);
            const uint32_t here = __popc(mask);
            if (rank < here) {
                for (; rank > 0; --rank) mask &= mask - 1;
                return first + __ffs(static_cast<int>(mask)) - 1;
            }
            rank -= here;
        }
    }
};

template <int kDim>
struct Producer {
    using Shape = TileShape<kDim>;
    const TilesParams& p;
    const Shape& shape;
    RingPlace<Shape::kStages> keys_at;
    RingPlace<Shape::kStages> values_at;
    RingPlace<2> tile_at;
    uint32_t query_parity = 0;

    __device__ Producer(const TilesParams& params, const Shape& shared) : p(params), shape(shared) {
        // Everything is free at first.
        keys_at.parity = values_at.parity = tile_at.parity = query_parity = 1;
    }

    __device__ void run() {
        Schedule<kDim> schedule(p, shape.control);
        for (;;) {
            Sequence sequence;
            const Tile tile = schedule.next(sequence);
            hand_out(tile);
            if (tile.end == 0) return;
            // Keys run one block ahead of values: scores are needed first.
            fetch_query(tile);
            fetch(sequence, tile, tile.end - 1, &p.keys, shape.keys, shape.control->keys_full, shape.control->keys_empty, keys_at);
            for (uint32_t block = tile.end - 1; block > tile.begin; --block) {
                fetch(sequence, tile, block - 1, &p.keys, shape.keys, shape.control->keys_full, shape.control->keys_empty,
                      keys_at);
                fetch(sequence, tile, block, &p.values, shape.values, shape.control->values_full,
                      shape.control->values_empty, values_at);
            }
            fetch(sequence, tile, tile.begin, &p.values, shape.values, shape.control->values_full,
                  shape.control->values_empty, values_at);
        }
    }

private:
    __device__ void hand_out(const Tile& tile) {
        shape.control->tile_empty[tile_at.stage].wait(tile_at.parity);
        if (threadIdx.x % 32 == 0) {
            shape.control->tiles[tile_at.stage] = tile;
            shape.control->tile_full[tile_at.stage].arrive();
        }
        __syncwarp();
        tile_at.advance();
    }

    __device__ void fetch_query(const Tile& tile) {
        Barrier* full = &shape.control->query_full;
        shape.control->query_empty.wait(query_parity);
        query_parity ^= 1;
        if (threadIdx.x % 32 == 0) {
            full->expect(Shape::kSlices * p.tokens * p.attend.group * kSlice * 2);
            for (int slice = 0; slice < Shape::kSlices; ++slice) {
                copy_box(shape.query + slice * kTileRows * kSlice * 2, &p.query, full, slice * kSlice,
                         tile.head * p.attend.group, tile.first_token);
            }
        }
        __syncwarp();
    }

    // One block of keys or values, run by run: a run never crosses a page.
    __device__ void fetch(const Sequence& sequence, const Tile& tile, uint32_t block, const TensorMap* map, uint8_t* ring,
                          Barrier* full, Barrier* empty, RingPlace<Shape::kStages>& at) const {
        const uint32_t first = block * Shape::kKeys, lane = threadIdx.x % 32;
        const uint32_t runs = (min(sequence.length - first, static_cast<uint32_t>(Shape::kKeys)) + p.run - 1) / p.run;
        uint8_t* to = ring + at.stage * Shape::kKeyBytes;
        empty[at.stage].wait(at.parity);
        if (lane == 0) full[at.stage].expect(runs * p.run * kDim * 2);
        __syncwarp();
        for (uint32_t run = lane; run < runs; run += 32) {
            const uint32_t position = first + run * p.run, size = p.attend.page_size;
            const uint32_t slot = sequence.pages[position / size] * size + position % size;
            for (int slice = 0; slice < Shape::kSlices; ++slice) {
                copy_box(to + (slice * Shape::kKeys + run * p.run) * kSlice * 2, map, &full[at.stage], slice * kSlice,
                         tile.head, slot);
            }
        }
        __syncwarp();
        at.advance();
    }
};
