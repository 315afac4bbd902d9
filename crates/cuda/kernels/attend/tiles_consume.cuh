// A consumer warpgroup: half of a tile, 64 rows of queries against blocks of keys and values.
//
// Ping-pong scheduling, as in FlashAttention-3: while one warpgroup's MMAs score the next block and multiply the previous one's
// values, the other computes its softmax; named barriers order their MMAs.
#pragma once
#include "../common/approximate.cuh"
#include "../common/mma.cuh"
#include "../common/wgmma.cuh"
#include "tiles.cuh"

template <int kDim>
struct Consumer {
    using Shape = TileShape<kDim>;
    static constexpr int kKeys = Shape::kKeys;
    // Named barriers: the ping-pong order, and one warpgroup by itself.
    static constexpr uint32_t kTurn = 2;
    static constexpr uint32_t kGroup = 4;

    const TilesParams& p;
    const Shape& shape;
    const uint32_t group;
    FixedPipelineState<Shape::kStages> keys_at;
    FixedPipelineState<Shape::kStages> values_at;
    FixedPipelineState<2> tile_at;
    FixedPipelineState<Shape::kQueries> query_at;
    // Positions of this thread's two rows.
    uint32_t positions[2];
    float maxima[2];
    float totals[2];
    float kept[2];
    float scores[kKeys / 2];
    float sums[kDim / 2];
    uint32_t weights[kKeys / 16][4];

    __device__ Consumer(const TilesParams& params, const Shape& shared, uint32_t which)
        : p(params), shape(shared), group(which) {}

    __device__ void run() {
        if (group == 1) named_barrier_arrive(kTurn, 256);
        for (;;) {
            shape.control->tile_full[tile_at.index].wait(tile_at.parity);
            const Tile tile = shape.control->tiles[tile_at.index];
            if (tile.end == 0) break;
            attend(tile);
            // Late enough that no block takes many tiles before others have one, early enough that the next one is known.
            shape.control->tile_empty[tile_at.index].arrive();
            tile_at.advance();
            finish(tile);
            write(tile);
            query_at.advance();
        }
        // Takes the turn that the other warpgroup's last arrival left open.
        if (group == 0) named_barrier_sync(kTurn, 256);
    }

private:
    __device__ bool leads() const { return threadIdx.x % 128 == 0; }
    __device__ uint32_t row(int which) const {
        return group * 64 + threadIdx.x % 128 / 32 * 16 + threadIdx.x % 32 / 4 + which * 8;
    }
    __device__ void take_turn() const { named_barrier_sync(kTurn + group, 256); }
    __device__ void pass_turn() const { named_barrier_arrive(kTurn + 1 - group, 256); }

    // Loops over the blocks from the last to the first, without the last multiplication by values.
    __device__ void attend(const Tile& tile) {
        begin(tile);
        shape.control->query_full[query_at.index].wait(query_at.parity);
        take_turn();
        issue_scores();
        pass_turn();
        warpgroup_wait<0>();
        warpgroup_fence_operand(scores);
        weigh_block(tile, tile.end - 1);
        pack();
        for (uint32_t block = tile.end - 1; block > tile.begin; --block) {
            take_turn();
            issue_scores();
            shrink();
            await_values(tile, block);
            issue_mix();
            pass_turn();
            warpgroup_wait<1>();
            warpgroup_fence_operand(scores);
            weigh_block(tile, block - 1);
            warpgroup_wait<0>();
            warpgroup_fence_operand(sums);
            release(shape.control->values_empty, values_at);
            pack();
        }
    }

    __device__ void finish(const Tile& tile) {
        shrink();
        await_values(tile, tile.begin);
        issue_mix();
        warpgroup_wait<0>();
        warpgroup_fence_operand(sums);
        release(shape.control->values_empty, values_at);
    }

    __device__ void weigh_block(const Tile& tile, uint32_t block) {
        release(shape.control->keys_empty, keys_at);
        bound_scores();
        if (foresees(tile, block)) hide_later(block);
        if (forgets(tile, block)) hide_earlier(block);
        weigh();
    }

    __device__ void begin(const Tile& tile) {
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            positions[i] = tile.position + min(row(i) / p.attend.group, tile.tokens - 1);
            maxima[i] = kLowest;
            totals[i] = 0.0f;
            kept[i] = 1.0f;
        }
#pragma unroll
        for (int i = 0; i < kDim / 2; ++i) sums[i] = 0.0f;
    }

    __device__ void release(Barrier* empty, FixedPipelineState<Shape::kStages>& at) const {
        if (leads()) empty[at.index].arrive();
        at.advance();
    }

    // scores = queries · keysᵀ.
    __device__ void issue_scores() {
        const uint64_t query =
            k_major_descriptor(shared_address(shape.query) + query_at.index * Shape::kQueryBytes + group * 64 * kSlice * 2);
        const uint64_t keys = k_major_descriptor(shared_address(shape.keys) + keys_at.index * Shape::kKeyBytes);
        shape.control->keys_full[keys_at.index].wait(keys_at.parity);
        warpgroup_fence_operand(scores);
        warpgroup_arrive();
#pragma unroll
        for (int step = 0; step < kDim / 16; ++step) {
            const uint32_t slice = step / 4, within = step % 4 * 32;
            wgmma_ss<kKeys>(scores, advance_descriptor(query, slice * kTileRows * kSlice * 2 + within),
                                   advance_descriptor(keys, slice * kKeys * kSlice * 2 + within), step != 0);
        }
        warpgroup_commit();
    }

    // sums += weights · values.
    __device__ void issue_mix() {
        const uint64_t values =
            mn_major_descriptor(shared_address(shape.values) + values_at.index * Shape::kKeyBytes, kKeys * kSlice * 2);
        warpgroup_fence_operand(sums);
        warpgroup_arrive();
#pragma unroll
        for (int step = 0; step < kKeys / 16; ++step) {
            wgmma_rs_mn_major<kDim>(sums, weights[step], advance_descriptor(values, step * 16 * kSlice * 2));
        }
        warpgroup_commit();
    }

    // Values after the sequence's end may be garbage; a weight of zero times that could be NaN.
    __device__ void await_values(const Tile& tile, uint32_t block) const {
        shape.control->values_full[values_at.index].wait(values_at.parity);
        const uint32_t first = block * kKeys;
        if (first + kKeys <= tile.length) return;
        uint8_t* values = shape.values + values_at.index * Shape::kKeyBytes;
        for (int slice = 0; slice < Shape::kSlices; ++slice) {
            uint8_t* end = values + (slice + 1) * kKeys * kSlice * 2;
            uint8_t* at = values + (slice * kKeys + tile.length - first) * kSlice * 2 + threadIdx.x % 128 * 16;
            for (; at < end; at += 128 * 16) *reinterpret_cast<uint4*>(at) = uint4{};
        }
        publish_shared();
        named_barrier_sync(kGroup + group, 128);
    }

    __device__ void bound_scores() {
        const float cap = p.attend.soft_cap;
        if (cap <= 0.0f) return;
        const float inner = p.attend.scale / cap, outer = cap / p.attend.scale;
#pragma unroll
        for (int i = 0; i < kKeys / 2; ++i) scores[i] = outer * quick_tanh(scores[i] * inner);
    }

    // True when a row of the tile does not see the end of a block, or its beginning.
    __device__ bool foresees(const Tile& tile, uint32_t block) const { return (block + 1) * kKeys > tile.position + 1; }
    __device__ bool forgets(const Tile& tile, uint32_t block) const {
        const uint32_t last = tile.position + tile.tokens - 1, first = block * kKeys;
        return last - min(first, last) >= p.attend.window;
    }

    // This thread's first key in a block, relative to the position of one of its rows.
    __device__ int ahead(uint32_t block, int which) const {
        return static_cast<int>(positions[which]) - static_cast<int>(block * kKeys + threadIdx.x % 4 * 2);
    }

    __device__ void hide_later(uint32_t block) {
        const int limits[2] = {ahead(block, 0), ahead(block, 1)};
#pragma unroll
        for (int i = 0; i < kKeys / 2; ++i) {
            if (i / 4 * 8 + i % 2 > limits[i / 2 % 2]) scores[i] = -INFINITY;
        }
    }

    __device__ void hide_earlier(uint32_t block) {
        const int window = static_cast<int>(p.attend.window), limits[2] = {ahead(block, 0) - window, ahead(block, 1) - window};
#pragma unroll
        for (int i = 0; i < kKeys / 2; ++i) {
            if (i / 4 * 8 + i % 2 <= limits[i / 2 % 2]) scores[i] = -INFINITY;
        }
    }

    // Online softmax; `kept` is the rescale factor of earlier sums.
    __device__ void weigh() {
        const float scale = p.attend.scale * kLog2E;
#pragma unroll
        for (int which = 0; which < 2; ++which) {
            float largest = maxima[which];
#pragma unroll
            for (int i = 0; i < kKeys / 2; i += 4) {
                largest = fmaxf(largest, fmaxf(scores[i + 2 * which], scores[i + 2 * which + 1]));
            }
            largest = fmaxf(largest, __shfl_xor_sync(0xffffffffu, largest, 1));
            largest = fmaxf(largest, __shfl_xor_sync(0xffffffffu, largest, 2));
            kept[which] = power_of_two((maxima[which] - largest) * scale);
            maxima[which] = largest;
            const float zero = largest * scale;
            float total = 0.0f;
#pragma unroll
            for (int i = 0; i < kKeys / 2; i += 4) {
#pragma unroll
                for (int j = 0; j < 2; ++j) {
                    float& score = scores[i + 2 * which + j];
                    score = power_of_two(score * scale - zero);
                    total += score;
                }
            }
            totals[which] = totals[which] * kept[which] + total;
        }
    }

    __device__ void pack() {
#pragma unroll
        for (int step = 0; step < kKeys / 16; ++step) {
#pragma unroll
            for (int i = 0; i < 4; ++i) weights[step][i] = pack_bf16(scores[step * 8 + 2 * i], scores[step * 8 + 2 * i + 1]);
        }
    }

    __device__ void shrink() {
#pragma unroll
        for (int i = 0; i < kDim / 2; ++i) sums[i] *= kept[i / 2 % 2];
    }

    // Stores results through this warp's query memory, in whole 16-byte vectors.
    __device__ void write(const Tile& tile) {
        const AttendParams& a = p.attend;
        const uint32_t lane = threadIdx.x % 32, first = group * 64 + threadIdx.x % 128 / 32 * 16;
        uint8_t* aside = shape.query + query_at.index * Shape::kQueryBytes + first * kSlice * 2;
        const auto place = [&](uint32_t row, uint32_t vector) {
            return aside + vector / 8 * kTileRows * kSlice * 2 + row * 128 + (vector % 8 ^ row % 8) * 16;
        };
        float factors[2];
#pragma unroll
        for (int which = 0; which < 2; ++which) {
            float total = totals[which];
            total += __shfl_xor_sync(0xffffffffu, total, 1);
            total += __shfl_xor_sync(0xffffffffu, total, 2);
            const uint32_t head = tile.head * a.group + row(which) % a.group;
            if (a.sinks) total += power_of_two(a.sinks[head] * kLog2E - maxima[which] * a.scale * kLog2E);
            factors[which] = 1.0f / total;
        }
        // The whole warpgroup has used its queries.
        named_barrier_sync(kGroup + group, 128);
#pragma unroll
        for (int i = 0; i < kDim / 8; i += 2) {
            const uint32_t fragment[4] = {pack_bf16(sums[i * 4] * factors[0], sums[i * 4 + 1] * factors[0]),
                                        pack_bf16(sums[i * 4 + 2] * factors[1], sums[i * 4 + 3] * factors[1]),
                                        pack_bf16(sums[i * 4 + 4] * factors[0], sums[i * 4 + 5] * factors[0]),
                                        pack_bf16(sums[i * 4 + 6] * factors[1], sums[i * 4 + 7] * factors[1])};
            stmatrix(shared_address(place(lane % 16, i + lane / 16)), fragment);
        }
        __syncwarp();
        constexpr uint32_t kVectors = kDim / 8;
        const bool even = a.out_stride % 8 == 0 && reinterpret_cast<size_t>(a.out) % 16 == 0;
#pragma unroll
        for (uint32_t i = lane; i < 16 * kVectors; i += 32) {
            const uint32_t row = first + i / kVectors, vector = i % kVectors;
            const uint4 words = *reinterpret_cast<const uint4*>(place(i / kVectors, vector));
            if (row >= tile.tokens * a.group || vector * 8 >= a.head_dim) continue;
            bf16* out = a.out + static_cast<size_t>(tile.first_token + row / a.group) * a.out_stride +
                        (tile.head * a.group + row % a.group) * a.head_dim + vector * 8;
            if (even) {
                store_vector(out, words);
            } else {
                uint32_t* to = reinterpret_cast<uint32_t*>(out);
                to[0] = words.x, to[1] = words.y, to[2] = words.z, to[3] = words.w;
            }
        }
        publish_shared();
        __syncwarp();
        if (lane == 0) shape.control->query_empty[query_at.index].arrive();
    }
};
