// Gated activations: SiLU, and GELU in its tanh approximation, both as x · sigmoid(…).
#pragma once
#include <cfloat>
#include <cstdint>

#include "approximate.cuh"

// Coefficients of the exponent of two: the linear one, and those of the cubic.
constexpr float kLogisticSlope = -1.4426950f, kCubicSlope = -2.3022082f, kCubicBend = -0.10294324f;

__device__ __forceinline__ float times_share(float x, float power) { return x * quick_reciprocal(1.0f + power_of_two(power)); }

// Branch-free. An infinite square would turn a zero coefficient into a NaN.
__device__ __forceinline__ float activate(float x, uint32_t gelu) {
    const float slope = gelu ? kCubicSlope : kLogisticSlope, bend = gelu ? kCubicBend : 0.0f;
    return times_share(x, x * fmaf(bend, fminf(x * x, FLT_MAX), slope));
}

// The same of many values, in fewer instructions for SiLU.
template <int kCount>
__device__ __forceinline__ void activate_all(float (&values)[kCount], uint32_t gelu) {
    float powers[kCount];
#pragma unroll
    for (int i = 0; i < kCount; ++i) powers[i] = values[i] * kLogisticSlope;
    if (gelu) {
#pragma unroll
        for (int i = 0; i < kCount; ++i) powers[i] = values[i] * fmaf(kCubicBend, fminf(values[i] * values[i], FLT_MAX), kCubicSlope);
    }
#pragma unroll
    for (int i = 0; i < kCount; ++i) values[i] = times_share(values[i], powers[i]);
}
