// Parameters of our GEMM kernels.
#pragma once
#include "../common/bf16.cuh"
#include "../common/tma.cuh"

// TMA descriptors of the operands.
struct LinearMaps {
    TensorMap weight;
    TensorMap x;
};

// Parameters of the epilogue and of the deferred norm.
struct EpilogueParams {
    // Results; with an argmax epilogue keys, one per row.
    void* out;
    const bf16* bias;
    // Sums of squares for the deferred RMS scale of x; null: x is normalised.
    const float* squares;
    // Residual add: the residual, the next norm's weight, and sums of squares for its readers.
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
    // Delayed dependent launch: the previous kernel may still write what the next one reads before it waits.
    uint32_t delays_dependents;
};

struct LinearParams : LinearMaps, EpilogueParams {};

// Epilogues: store, gated activation, residual add with the next norm (its RMS scale deferred).
enum class Epilogue { kStore, kGated, kAddNorm };
