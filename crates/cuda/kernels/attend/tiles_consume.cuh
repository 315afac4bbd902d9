// A warpgroup's half of a tile: 64 rows of queries against blocks of keys and values.
//
// While the tensor cores score the next block and mix the last one, the other warpgroup turns its scores into weights;
// the two take turns at issuing products.
#pragma once
#include "../common/approximate.cuh"
#include "../common/mma.cuh"
#include "../common/wgmma.cuh"
#include "tiles.cuh"

template <int kDim>
struct Consumer {
    using Shape = TileShape<kDim>;
    static constexpr int kKeys = Shape::kKeys;
    // Numbered barriers: whose turn it is, and the warpgroup by itself.
    static constexpr uint32_t kTurn = 2;
    static constexpr uint32_t kGroup = 4;

    const TilesParams& p;
    const Shape& shape;
    const uint32_t group;
    RingPlace<Shape::kStages> keys_at;
    RingPlace<Shape::kStages> values_at;
    RingPlace<2> tile_at;
    uint32_t query_parity = 0;
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
        if (group == 1) announce(kTurn, 256);
        for (;;) {
            shape.control->tile_full[tile_at.stage].wait(tile_at.parity);
            const Tile tile = shape.control->tiles[tile_at.stage];
            meet(kGroup + group, 128);
            shape.control->tile_empty[tile_at.stage].arrive();
            tile_at.advance();
            if (tile.end == 0) break;
            attend(tile);
            write(tile);
        }
        // The other group announced a turn that nobody took.
        if (group == 0) meet(kTurn, 256);
    }

private:
    __device__ bool leads() const { return threadIdx.x % 128 == 0; }
    __device__ uint32_t row(int which) const {
        return group * 64 + threadIdx.x % 128 / 32 * 16 + threadIdx.x % 32 / 4 + which * 8;
    }
    __device__ void take_turn() const { meet(kTurn + group, 256); }
    __device__ void pass_turn() const { announce(kTurn + 1 - group, 256); }

    // Goes over the blocks from the last to the first. Of the last one only what is seen counts: all keys, or half.
    __device__ void attend(const Tile& tile) {
        begin(tile);
        const uint32_t end = tile.position + tile.tokens, last_first = (tile.end - 1) * kKeys;
        const bool half = end - last_first <= kKeys / 2;
        shape.control->query_full.wait(query_parity);
        query_parity ^= 1;
        take_turn();
        if (half) {
            issue_scores<kKeys / 2>();
            commit_products();
            wait_products<0>();
            pin(scores);
        } else {
            issue_scores<kKeys>();
            commit_products();
            wait_products<0>();
            pin(scores);
        }
        pass_turn();
        release(shape.control->keys_empty, keys_at);
        bound_scores();
        hide(tile.end - 1);
        weigh();
        pack();
        bool is_last = true;
        for (uint32_t block = tile.end - 1; block > tile.begin; --block) {
            take_turn();
            issue_scores<kKeys>();
            commit_products();
            shrink();
            await_values(tile, block, is_last);
            issue_mix();
            is_last = false;
            commit_products();
            pass_turn();
            wait_products<1>();
            pin(scores);
            release(shape.control->keys_empty, keys_at);
            bound_scores();
            if (must_hide(tile, block - 1)) hide(block - 1);
            weigh();
            wait_products<0>();
            pin(sums);
            release(shape.control->values_empty, values_at);
            pack();
        }
        if (leads()) shape.control->query_empty.arrive();
        shrink();
        await_values(tile, tile.begin, is_last);
        issue_mix();
        commit_products();
        wait_products<0>();
        pin(sums);
        release(shape.control->values_empty, values_at);
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

    __device__ void release(Barrier* empty, RingPlace<Shape::kStages>& at) const {
        if (leads()) empty[at.stage].arrive();
        at.advance();
    }

    // scores = queries · keysᵀ, for the first keys of a block; what the others hold is hidden later.
    template <int kFirst>
    __device__ void issue_scores() {
        const uint64_t query = matrix_along(shared_address(shape.query) + group * 64 * kSlice * 2);
        const uint64_t keys = matrix_along(shared_address(shape.keys) + keys_at.stage * Shape::kKeyBytes);
        shape.control->keys_full[keys_at.stage].wait(keys_at.parity);
        pin(scores);
        begin_products();
#pragma unroll
        for (int step = 0; step < kDim / 16; ++step) {
            const uint32_t slice = step / 4, within = step % 4 * 32;
            multiply_shared<kFirst>(reinterpret_cast<float(&)[kFirst / 2]>(scores),
                                    moved(query, slice * kTileRows * kSlice * 2 + within),
                                    moved(keys, slice * kKeys * kSlice * 2 + within), step != 0);
        }
    }

    // sums += weights · values.
    __device__ void issue_mix() {
        const uint64_t values =
            matrix_across(shared_address(shape.values) + values_at.stage * Shape::kKeyBytes, kKeys * kSlice * 2);
        pin(sums);
        begin_products();
#pragma unroll
        for (int step = 0; step < kKeys / 16; ++step) {
            multiply_registers<kDim>(sums, weights[step], moved(values, step * 16 * kSlice * 2));
        }
    }

    // Values behind the sequence's end may be anything; weights of zero must meet numbers.
    __device__ void await_values(const Tile& tile, uint32_t block, bool last) const {
        shape.control->values_full[values_at.stage].wait(values_at.parity);
        const uint32_t first = block * kKeys;
        if (!last || first + kKeys <= tile.length) return;
        uint8_t* values = shape.values + values_at.stage * Shape::kKeyBytes;
        for (int slice = 0; slice < Shape::kSlices; ++slice) {
            uint8_t* end = values + (slice + 1) * kKeys * kSlice * 2;
            uint8_t* at = values + (slice * kKeys + tile.length - first) * kSlice * 2 + threadIdx.x % 128 * 16;
            for (; at < end; at += 128 * 16) *reinterpret_cast<uint4*>(at) = uint4{};
        }
        publish_shared();
        meet(kGroup + group, 128);
    }

    __device__ void bound_scores() {
        const float cap = p.attend.soft_cap;
        if (cap <= 0.0f) return;
        const float inner = p.attend.scale / cap, outer = cap / p.attend.scale;
#pragma unroll
        for (int i = 0; i < kKeys / 2; ++i) scores[i] = outer * quick_tanh(scores[i] * inner);
    }

    __device__ bool must_hide(const Tile& tile, uint32_t block) const {
        const uint32_t last = tile.position + tile.tokens - 1, first = block * kKeys;
        return first + kKeys > tile.position + 1 || last - min(first, last) >= p.attend.window;
    }

    __device__ void hide(uint32_t block) {
#pragma unroll
        for (int i = 0; i < kKeys / 2; ++i) {
            const uint32_t own = positions[i / 2 % 2], position = block * kKeys + i / 4 * 8 + threadIdx.x % 4 * 2 + i % 2;
            if (position > own || own - position >= p.attend.window) scores[i] = -INFINITY;
        }
    }

    // Scores become weights; `kept` says how much of what was summed before is left.
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

    __device__ void write(const Tile& tile) {
        const AttendParams& a = p.attend;
#pragma unroll
        for (int which = 0; which < 2; ++which) {
            float total = totals[which];
            total += __shfl_xor_sync(0xffffffffu, total, 1);
            total += __shfl_xor_sync(0xffffffffu, total, 2);
            if (row(which) >= tile.tokens * a.group) continue;
            const uint32_t head = tile.head * a.group + row(which) % a.group;
            if (a.sinks) total += power_of_two(a.sinks[head] * kLog2E - maxima[which] * a.scale * kLog2E);
            const float factor = 1.0f / total;
            bf16* out = a.out + static_cast<size_t>(tile.first_token + row(which) / a.group) * a.out_stride + head * a.head_dim;
#pragma unroll
            for (int i = 0; i < kDim / 8; ++i) {
                const uint32_t element = i * 8 + threadIdx.x % 4 * 2;
                if (element >= a.head_dim) continue;
                *reinterpret_cast<uint32_t*>(out + element) =
                    pack_bf16(sums[i * 4 + which * 2] * factor, sums[i * 4 + which * 2 + 1] * factor);
            }
        }
    }
};
