// Scores of a warp's sixteen positions while they grow.
#pragma once
#include "stream_tile.cuh"

// K·Qᵀ: rows are positions. Sums in turn, so that no product waits for the one before.
template <typename Shape>
struct StreamScores {
    static constexpr int kGroups = Shape::kGroups;
    static constexpr int kSteps = Shape::kDim / 16;
    static constexpr int kSums = kGroups == 1 ? 4 : 2;
    using Tile = StreamTile<Shape>;
    // Queries as the second factor of a product: this lane has column `lane / 4` of each group, and in each step two pairs
    // of elements in the order in which keys come.
    using Query = uint32_t[kGroups][kSteps][2];

    const uint32_t first;
    float sums[kSums][kGroups][4] = {};

    __device__ static void take_query(const Shape& shape, Query& query) {
        const uint32_t lane = threadIdx.x % 32;
#pragma unroll
        for (int group = 0; group < kGroups; ++group) {
            const bf16* from = shape.control->query[group * kGroupColumns + lane / 4];
#pragma unroll
            for (int step = 0; step < kSteps; ++step) {
#pragma unroll
                for (int pair = 0; pair < 2; ++pair) {
                    const uint32_t element =
                        step * 16 + (Shape::kNarrow ? lane % 4 * 4 + pair * 2 : lane % 4 * 2 + pair * 8);
                    if constexpr (Shape::kNarrow) {
                        const float2 both = __bfloat1622float2(*reinterpret_cast<const __nv_bfloat162*>(from + element));
                        query[group][step][pair] = pack_f16(both.x, both.y);
                    } else {
                        query[group][step][pair] = *reinterpret_cast<const uint32_t*>(from + element);
                    }
                }
            }
        }
    }

    // Of the keys in this buffer.
    __device__ __forceinline__ explicit StreamScores(const uint8_t* keys) : first(first_piece(shared_address(keys))) {}

    // The products of two steps, from an even one on.
    __device__ __forceinline__ void add_two(int step, const Query& query) {
        if constexpr (Shape::kNarrow) {
            uint32_t bytes[4];
            load_matrices(bytes, (first ^ step % 8 * 16) + step / 8 * Shape::kSliceBytes);
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                const uint32_t x[4] = {widen_fp8(bytes[2 * half]), widen_fp8(bytes[2 * half + 1]),
                                       widen_fp8(bytes[2 * half] >> 16), widen_fp8(bytes[2 * half + 1] >> 16)};
                add(step + half, x, query);
            }
        } else {
#pragma unroll
            for (int both = step; both < step + 2; ++both) {
                uint32_t x[4];
                load_matrices(x, (first ^ both % 4 * 32) + both / 4 * Shape::kSliceBytes);
                add(both, x, query);
            }
        }
    }

    __device__ __forceinline__ void finish(float (&scores)[kGroups][4]) const {
#pragma unroll
        for (int group = 0; group < kGroups; ++group) {
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                float sum = sums[0][group][i] + sums[1][group][i];
                if constexpr (kSums == 4) sum += sums[2][group][i] + sums[3][group][i];
                scores[group][i] = sum;
            }
        }
    }

private:
    __device__ static uint32_t first_piece(uint32_t keys) {
        const uint32_t warp = threadIdx.x / 32, lane = threadIdx.x % 32, row = warp % (kWarps / 2) * kTile + lane % 16;
        return keys + row * 128 + (lane / 16 ^ row % 8) * 16;
    }

    __device__ __forceinline__ void add(int step, const uint32_t (&x)[4], const Query& query) {
#pragma unroll
        for (int group = 0; group < kGroups; ++group) {
            Tile::multiply(sums[step % kSums][group], x, query[group][step][0], query[group][step][1]);
        }
    }
};
