// Small vectors of bf16 or f32.
#pragma once
#include "bf16.cuh"

__device__ __forceinline__ float number(const void* values, uint32_t wide, size_t at) {
    return wide ? static_cast<const float*>(values)[at] : __bfloat162float(static_cast<const bf16*>(values)[at]);
}

// Eight in a row, aligned to eight elements.
__device__ __forceinline__ void numbers(const void* values, uint32_t wide, size_t at, float (&to)[8]) {
    if (wide) {
        const float4* from = reinterpret_cast<const float4*>(static_cast<const float*>(values) + at);
        const float4 low = from[0], high = from[1];
        to[0] = low.x, to[1] = low.y, to[2] = low.z, to[3] = low.w;
        to[4] = high.x, to[5] = high.y, to[6] = high.z, to[7] = high.w;
    } else {
        unpack8(load8(static_cast<const bf16*>(values) + at), to);
    }
}
