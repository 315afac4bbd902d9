// What becomes of the sums of sixteen outputs: results, gated results, or the end of a layer.
//
// A warp holds them as m16n8k16 leaves them: a thread has outputs lane / 4 and lane / 4 + 8 of every fourth pair of rows.
#pragma once
#include "../common/activate.cuh"
#include "params.cuh"

template <int kTokens>
struct Finish {
    static constexpr int kSums = kTokens / 2;
    using Sums = float (&)[kSums];

    static __device__ __forceinline__ uint32_t output(int i) { return threadIdx.x % 32 / 4 + i / 2 % 2 * 8; }
    static __device__ __forceinline__ uint32_t token(int i) { return i / 4 * 8 + threadIdx.x % 4 * 2 + i % 2; }

    // Multiplies rows with the factors that their norm still lacks.
    template <class F>
    static __device__ __forceinline__ void complete(const LinearSurroundings& p, F* factors, Sums sums) {
        if (!p.squares) return;
        factors->wait();
#pragma unroll
        for (int i = 0; i < kSums; ++i) sums[i] *= factors->values[token(i)];
    }

    static __device__ __forceinline__ void results(const LinearSurroundings& p, uint32_t first, Sums sums) {
#pragma unroll
        for (int i = 0; i < kSums; ++i) {
            const uint32_t at = first + output(i);
            if (token(i) >= p.rows || at >= p.outputs) continue;
            if (p.bias) sums[i] += __bfloat162float(p.bias[at]);
            const size_t place = static_cast<size_t>(token(i)) * p.out_stride + at;
            if (p.wide) {
                static_cast<float*>(p.out)[place] = sums[i];
            } else {
                static_cast<bf16*>(p.out)[place] = __float2bfloat16(sums[i]);
            }
        }
    }

    // Of the two outputs that a thread holds of a row, the first is a gate and the second its factor.
    static __device__ __forceinline__ void gated(const LinearSurroundings& p, uint32_t first, Sums sums) {
        const uint32_t width = p.outputs / 2, at = first / 2 + output(0);
        if (at >= width) return;
        const float gate_bias = p.bias ? __bfloat162float(p.bias[at]) : 0.0f;
        const float up_bias = p.bias ? __bfloat162float(p.bias[width + at]) : 0.0f;
#pragma unroll
        for (int i = 0; i < kSums; ++i) {
            if (i / 2 % 2 != 0 || token(i) >= p.rows) continue;
            sums[i] = activate(sums[i] + gate_bias, p.gelu) * (sums[i + 2] + up_bias);
            static_cast<bf16*>(p.out)[static_cast<size_t>(token(i)) * p.out_stride + at] = __float2bfloat16(sums[i]);
        }
    }

    // Adds to the residual; what the next products read lacks only the factor of the norm. `tell` gets sums of squares.
    template <class Tell>
    static __device__ __forceinline__ void onward(const LinearSurroundings& p, uint32_t first, Sums sums, Tell tell) {
        const uint32_t at[2] = {first + output(0), first + output(2)};
        float weights[2], biases[2] = {};
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            weights[i] = at[i] < p.outputs ? __ldg(p.norm + at[i]) : 0.0f;
            if (p.bias && at[i] < p.outputs) biases[i] = __bfloat162float(p.bias[at[i]]);
        }
        // Two rows and two outputs each.
#pragma unroll
        for (int group = 0; group < kSums; group += 4) {
#pragma unroll
            for (int i = group; i < group + 4; ++i) {
                const uint32_t which = i / 2 % 2;
                if (token(i) >= p.rows || at[which] >= p.outputs) {
                    sums[i] = 0.0f;
                    continue;
                }
                bf16* residual = p.residual + static_cast<size_t>(token(i)) * p.residual_stride + at[which];
                sums[i] += biases[which] + __bfloat162float(*residual);
                *residual = __float2bfloat16(sums[i]);
                const size_t place = static_cast<size_t>(token(i)) * p.out_stride + at[which];
                static_cast<bf16*>(p.out)[place] = __float2bfloat16(sums[i] * weights[which]);
            }
#pragma unroll
            for (int i = group; i < group + 2; ++i) {
                float squares = sums[i] * sums[i] + sums[i + 2] * sums[i + 2];
#pragma unroll
                for (int offset = 4; offset < 32; offset *= 2) squares += __shfl_xor_sync(0xffffffffu, squares, offset);
                if (threadIdx.x % 32 < 4 && token(i) < p.rows && first < p.outputs) tell(token(i), first / 16, squares);
            }
#pragma unroll
            for (int i = group; i < group + 4; ++i) sums[i] *= weights[i / 2 % 2];
        }
    }

    // Leaves what was written in `sums`: results or, of gated ones, the first of two.
    template <Ending kEnding, class F>
    static __device__ __forceinline__ void run(const LinearSurroundings& p, F* factors, uint32_t first, Sums sums) {
        if constexpr (kEnding == Ending::kOnward) {
            onward(p, first, sums, [&](uint32_t row, uint32_t part, float squares) {
                p.next_squares[row * p.next_parts + part] = squares;
            });
        } else {
            complete(p, factors, sums);
            kEnding == Ending::kGated ? gated(p, first, sums) : results(p, first, sums);
        }
    }
};
