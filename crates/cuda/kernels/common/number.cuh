// Small matrices of either float type, read element by element.
#pragma once
#include "bf16.cuh"

__device__ __forceinline__ float number(const void* values, uint32_t wide, size_t at) {
    return wide ? static_cast<const float*>(values)[at] : __bfloat162float(static_cast<const bf16*>(values)[at]);
}
