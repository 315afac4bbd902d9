// The curves of gated layers: a number times a share of it, which is a logistic curve of the number or, for GELU's
// approximation by tanh, of a cubic.
#pragma once
#include <cfloat>
#include <cstdint>

#include "approximate.cuh"

__device__ __forceinline__ float activate(float x, uint32_t gelu) {
    // Of the power of two: the line's slope, and what the cubic adds to it. A square without end would undo its zero.
    const float slope = gelu ? -2.3022082f : -1.4426950f, bend = gelu ? -0.10294324f : 0.0f;
    return x * quick_reciprocal(1.0f + power_of_two(x * fmaf(bend, fminf(x * x, FLT_MAX), slope)));
}
