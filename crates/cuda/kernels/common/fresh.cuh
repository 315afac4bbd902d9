// New tokens as the QKV GEMM left them: keys and values, and what normalises, rotates and stores them.
#pragma once
#include "bf16.cuh"

struct FreshParams {
    const bf16* key;
    const bf16* value;
    const void* query_norm;
    const void* key_norm;
    const uint32_t* positions;
    const float* table;
    // Null when they are stored already.
    const uint32_t* slots;
    float query_eps;
    float key_eps;
    uint32_t key_stride;
    uint32_t value_stride;
    uint32_t wide_norms;
};
