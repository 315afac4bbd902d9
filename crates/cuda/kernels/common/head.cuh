// Heads of 64, 128 or 256 elements in the lanes of a warp: normalised, rotated (RoPE), stored.
#pragma once
#include "bf16.cuh"
#include "number.cuh"
#include "reduce.cuh"

struct HeadNorm {
    const void* weight;
    float eps;
    uint32_t wide;
};

// A head of 32 · kPer elements: lane l holds kPer neighbours. RoPE pairs lie sixteen lanes apart.
template <int kPer>
struct EvenHead {
    float values[kPer];
    static constexpr int kDim = 32 * kPer;

    // Cosines and sines of this lane's elements; sines of the lower half are negated.
    struct Angles {
        float cosines[kPer];
        float sines[kPer];

        __device__ __forceinline__ Angles(const float* table, uint32_t, float*) {
            if (!table) return;
            const bool lower = threadIdx.x % 32 < 16;
#pragma unroll
            for (int i = 0; i < kPer; ++i) {
                const uint32_t pair = threadIdx.x % 16 * kPer + i;
                const float sine = table[kDim / 2 + pair];
                cosines[i] = table[pair];
                sines[i] = lower ? -sine : sine;
            }
        }
    };

    // The weights of this lane's elements.
    struct Norm {
        float weights[kPer];
        float eps;

        __device__ __forceinline__ explicit Norm(const HeadNorm& norm) : eps(norm.eps) {
            if (!norm.weight) return;
#pragma unroll
            for (int i = 0; i < kPer; ++i) weights[i] = number(norm.weight, norm.wide, first() + i);
        }
    };

    __device__ __forceinline__ static uint32_t first() { return threadIdx.x % 32 * kPer; }

    __device__ __forceinline__ void load(const bf16* from, uint32_t) {
        __nv_bfloat162 pairs[kPer / 2];
        if constexpr (kPer == 2) *reinterpret_cast<uint32_t*>(pairs) = *reinterpret_cast<const uint32_t*>(from + first());
        if constexpr (kPer == 4) *reinterpret_cast<uint2*>(pairs) = *reinterpret_cast<const uint2*>(from + first());
        if constexpr (kPer == 8) *reinterpret_cast<uint4*>(pairs) = *reinterpret_cast<const uint4*>(from + first());
        take(pairs);
    }

    __device__ __forceinline__ void take(const __nv_bfloat162 (&pairs)[kPer / 2]) {
#pragma unroll
        for (int i = 0; i < kPer / 2; ++i) {
            const float2 pair = __bfloat1622float2(pairs[i]);
            values[2 * i] = pair.x;
            values[2 * i + 1] = pair.y;
        }
    }

    __device__ __forceinline__ void normalise(const Norm& norm, uint32_t) {
        float squares = 0.0f;
#pragma unroll
        for (int i = 0; i < kPer; ++i) squares += values[i] * values[i];
        const float factor = rsqrtf(warp_sum(squares) / kDim + norm.eps);
#pragma unroll
        for (int i = 0; i < kPer; ++i) values[i] *= factor * norm.weights[i];
    }

    __device__ __forceinline__ void rotate(const Angles& angles) {
#pragma unroll
        for (int i = 0; i < kPer; ++i) {
            const float other = __shfl_xor_sync(0xffffffffu, values[i], 16);
            values[i] = values[i] * angles.cosines[i] + other * angles.sines[i];
        }
    }

    __device__ __forceinline__ void store(bf16* to, uint32_t) const {
        __nv_bfloat162 pairs[kPer / 2];
#pragma unroll
        for (int i = 0; i < kPer / 2; ++i) pairs[i] = __floats2bfloat162_rn(values[2 * i], values[2 * i + 1]);
        if constexpr (kPer == 2) *reinterpret_cast<uint32_t*>(to + first()) = *reinterpret_cast<const uint32_t*>(pairs);
        if constexpr (kPer == 4) *reinterpret_cast<uint2*>(to + first()) = *reinterpret_cast<const uint2*>(pairs);
        if constexpr (kPer == 8) *reinterpret_cast<uint4*>(to + first()) = *reinterpret_cast<const uint4*>(pairs);
    }

    __device__ __forceinline__ void store_narrow(__nv_fp8_e4m3* to, uint32_t) const {
#pragma unroll
        for (int i = 0; i < kPer; ++i) to[first() + i] = __nv_fp8_e4m3(values[i]);
    }
};
