// e4m3 weights: conversion to and from the device layout, and GEMMs of odd shapes.
#include "common/float8.cuh"
#include "common/hopper.cuh"
#include "common/order.cuh"
#include "common/reduce.cuh"

struct ArrangeParams {
    const uint8_t* from;
    uint32_t* to;
    uint32_t inputs;
    uint32_t words;
};

// One block per row of codes in file order.
extern "C" __global__ void __launch_bounds__(256) float8_arrange(const __grid_constant__ ArrangeParams p) {
    launch_and_wait_on_dependent_grids();
    const uint8_t* from = p.from + static_cast<size_t>(blockIdx.x) * p.inputs;
    uint32_t* to = p.to + static_cast<size_t>(blockIdx.x) * p.words;
    const auto code = [&](uint32_t column) -> uint32_t { return column < p.inputs ? from[column] : 0; };
    for (uint32_t i = threadIdx.x; i < p.words; i += blockDim.x) {
        const uint32_t column = i / kSegmentWords * kSegment + first_column(i % kSegmentWords);
        to[i] = code(column) | code(column + 8) << 8 | code(column + 1) << 16 | code(column + 9) << 24;
    }
}

struct InventParams {
    uint32_t* to;
    uint32_t inputs;
    uint32_t words;
    uint32_t seed;
};

// One block per row of random codes, uniform below the largest number.
extern "C" __global__ void __launch_bounds__(256) float8_invent(const __grid_constant__ InventParams p) {
    launch_and_wait_on_dependent_grids();
    uint32_t* to = p.to + static_cast<size_t>(blockIdx.x) * p.words;
    for (uint32_t i = threadIdx.x; i < p.words; i += blockDim.x) {
        const uint32_t column = i / kSegmentWords * kSegment + first_column(i % kSegmentWords);
        uint32_t state = (blockIdx.x * p.words + i) * 2654435761u ^ p.seed;
        uint32_t word = 0;
        const uint32_t offsets[4] = {0, 8, 1, 9};
#pragma unroll
        for (int byte = 0; byte < 4; ++byte) {
            state = state * 1664525u + 1013904223u;
            const uint32_t mixed = (state ^ state >> 15) * 2246822519u;
            const float number = (static_cast<float>(mixed >> 8) * 0x1p-23f - 1.0f) * kLargestFloat8;
            const uint32_t code = __nv_cvt_float_to_fp8(number, __NV_SATFINITE, __NV_E4M3);
            if (column + offsets[byte] < p.inputs) word |= code << 8 * byte;
        }
        to[i] = word;
    }
}

struct WidenParams {
    const uint32_t* codes;
    Scales scales;
    const uint32_t* indices;
    bf16* out;
    uint32_t first;
    uint32_t out_stride;
    uint32_t inputs;
    uint32_t words;
};

// One block per row: consecutive rows from `first` on, or those that `indices` names.
extern "C" __global__ void __launch_bounds__(256) float8_widen(const __grid_constant__ WidenParams p) {
    launch_and_wait_on_dependent_grids();
    const uint32_t row = p.indices ? p.indices[blockIdx.x] : p.first + blockIdx.x;
    const uint32_t* codes = p.codes + static_cast<size_t>(row) * p.words;
    const float* scales = p.scales.row(row);
    bf16* out = p.out + static_cast<size_t>(blockIdx.x) * p.out_stride;
    for (uint32_t i = threadIdx.x; i < p.words; i += blockDim.x) {
        const uint32_t segment = i / kSegmentWords;
        const uint32_t column = segment * kSegment + first_column(i % kSegmentWords);
        const float scale = scales[segment / p.scales.group_segments];
        uint32_t low, high;
        widen_codes(codes[i], low, high);
        const float2 near = as_floats(low), far = as_floats(high);
        const auto put = [&](uint32_t at, float value) {
            if (at < p.inputs) out[at] = __float2bfloat16(value * scale);
        };
        put(column, near.x);
        put(column + 1, near.y);
        put(column + 8, far.x);
        put(column + 9, far.y);
    }
}

struct AnyFloat8Params {
    const bf16* x;
    const uint32_t* codes;
    Scales scales;
    const bf16* bias;
    void* out;
    uint32_t x_stride;
    uint32_t out_stride;
    uint32_t inputs;
    uint32_t words;
    uint32_t outputs;
    uint32_t wide;
};

// GEMM of any shape and alignment: one warp per result.
extern "C" __global__ void __launch_bounds__(256) linear_float8_any(const __grid_constant__ AnyFloat8Params p) {
    launch_and_wait_on_dependent_grids();
    const uint32_t output = blockIdx.y * 8 + threadIdx.x / 32;
    if (output >= p.outputs) return;
    const bf16* x = p.x + static_cast<size_t>(blockIdx.x) * p.x_stride;
    const uint32_t* codes = p.codes + static_cast<size_t>(output) * p.words;
    const float* scales = p.scales.row(output);
    const auto input = [&](uint32_t column) { return column < p.inputs ? __bfloat162float(x[column]) : 0.0f; };
    float sum = 0.0f;
    for (uint32_t i = threadIdx.x % 32; i < p.words; i += 32) {
        const uint32_t segment = i / kSegmentWords;
        const uint32_t column = segment * kSegment + first_column(i % kSegmentWords);
        uint32_t low, high;
        widen_codes(codes[i], low, high);
        const float2 near = as_floats(low), far = as_floats(high);
        const float part = near.x * input(column) + near.y * input(column + 1) + far.x * input(column + 8) +
                           far.y * input(column + 9);
        sum += part * scales[segment / p.scales.group_segments];
    }
    sum = warp_sum(sum);
    if (threadIdx.x % 32 != 0) return;
    if (p.bias) sum += __bfloat162float(p.bias[output]);
    const size_t at = static_cast<size_t>(blockIdx.x) * p.out_stride + output;
    if (p.wide) {
        static_cast<float*>(p.out)[at] = sum;
    } else {
        static_cast<bf16*>(p.out)[at] = __float2bfloat16(sum);
    }
}
