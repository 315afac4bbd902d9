// MMA operands of a warp, from bf16 or e4m3 keys and values.
#pragma once
#include "../common/mma.cuh"
#include "stream.cuh"

template <typename Shape>
struct StreamTile {
    static constexpr bool kNarrow = Shape::kNarrow;

    __device__ static uint32_t pack(float low, float high) { return kNarrow ? pack_f16(low, high) : pack_bf16(low, high); }

    __device__ static void multiply(float (&sum)[4], const uint32_t (&x)[4], uint32_t y0, uint32_t y1) {
        if constexpr (kNarrow) {
            mma_f16(sum, x, y0, y1);
        } else {
            mma_bf16(sum, x, y0, y1);
        }
    }

    // Sixteen elements of two tiles of values, elements as rows; bytes yield even elements first, then odd ones.
    __device__ static void load_values(uint32_t values, uint32_t step, uint32_t (&x)[2][4]) {
        const uint32_t lane = threadIdx.x % 32;
        if constexpr (kNarrow) {
            const uint32_t row = lane % 16;
            uint32_t bytes[4];
            ldmatrix_trans(bytes, values + lane / 16 * kTile * 128 + Shape::place(row, step));
#pragma unroll
            for (int which = 0; which < 2; ++which) {
                widen_fp8_pairs(bytes[2 * which], x[which][0], x[which][1]);
                widen_fp8_pairs(bytes[2 * which + 1], x[which][2], x[which][3]);
            }
        } else {
            const uint32_t row = lane % 8 + lane / 16 * 8;
            const uint32_t first = values + Shape::place(row, step * 2 + lane / 8 % 2);
            ldmatrix_trans(x[0], first);
            ldmatrix_trans(x[1], first + kTile * 128);
        }
    }
};
