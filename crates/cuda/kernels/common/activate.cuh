// The curves of gated layers.
#pragma once
#include <cstdint>

__device__ __forceinline__ float activate(float x, uint32_t gelu) {
    if (gelu) return 0.5f * x * (1.0f + tanhf(0.7978845608f * (x + 0.044715f * x * x * x)));
    return __fdividef(x, 1.0f + __expf(-x));
}

// Of several numbers: with one branch for all of them, they do not wait for each other.
template <int kCount>
__device__ __forceinline__ void activate_all(float (&x)[kCount], uint32_t gelu) {
    if (gelu) {
#pragma unroll
        for (int i = 0; i < kCount; ++i) x[i] = activate(x[i], true);
    } else {
#pragma unroll
        for (int i = 0; i < kCount; ++i) x[i] = activate(x[i], false);
    }
}
