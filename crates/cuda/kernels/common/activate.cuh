// The curves of gated layers: a number times a share of it, which is a logistic curve of the number or, for GELU's
// approximation by tanh, of a cubic.
#pragma once
#include <cstdint>

__device__ __forceinline__ float activate(float x, uint32_t gelu) {
    const float along = gelu ? 1.5957691216f * (x + 0.044715f * x * x * x) : x;
    return __fdividef(x, 1.0f + __expf(-along));
}
