// What a streamed product is told.
#pragma once
#include "../common/bf16.cuh"
#include "../common/tma.cuh"

// The matrices, as the copy engine takes them.
struct LinearMaps {
    TensorMap weight;
    TensorMap x;
};

// What surrounds a product: where results go, and what of the kernels around it is done with them.
struct LinearSurroundings {
    // Where only the largest results count, keys of them, one a row.
    void* out;
    const bf16* bias;
    // Sums of squares of rows of x that lack the factor of their norm.
    const float* squares;
    // Where a layer ends: the running sum, the weight of the next norm, and sums of squares for its readers.
    bf16* residual;
    const float* norm;
    float* next_squares;
    uint32_t out_stride;
    uint32_t residual_stride;
    uint32_t rows;
    uint32_t outputs;
    uint32_t stages;
    uint32_t wide;
    uint32_t gelu;
    uint32_t parts;
    uint32_t next_parts;
    float width;
    float eps;
    // The kernel before may still run whose results the one behind reads early.
    uint32_t holds_back;
};

struct LinearParams : LinearMaps, LinearSurroundings {};

// What becomes of the sums.
enum class Ending { kResults, kGated, kOnward };
