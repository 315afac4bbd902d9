// Logit edits before sampling: single additions, and penalties for tokens that were produced.
#include "common/bf16.cuh"
#include "common/order.cuh"
#include "common/sample_params.cuh"

struct EditParams {
    const uint32_t* rows;
    const uint32_t* tokens;
    const float* values;
    float* logits;
    uint32_t stride;
    uint32_t count;
};

extern "C" __global__ void edit_logits(const __grid_constant__ EditParams p) {
    launch_and_wait_on_dependent_grids();
    const uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < p.count) atomicAdd(p.logits + static_cast<size_t>(p.rows[i]) * p.stride + p.tokens[i], p.values[i]);
}

struct PenaliseParams {
    const uint16_t* counts;
    const uint32_t* table_rows;
    const SampleParams* params;
    float* logits;
    uint32_t stride;
    uint32_t vocabulary;
};

extern "C" __global__ void penalise(const __grid_constant__ PenaliseParams p) {
    launch_and_wait_on_dependent_grids();
    const SampleParams params = p.params[blockIdx.x];
    if (params.frequency == 0.0f && params.presence == 0.0f && params.repetition == 1.0f) return;
    const uint32_t token = blockIdx.y * blockDim.x + threadIdx.x;
    if (token >= p.vocabulary) return;
    const uint32_t count = p.counts[static_cast<size_t>(p.table_rows[blockIdx.x]) * p.vocabulary + token];
    if (count == 0) return;
    float& logit = p.logits[static_cast<size_t>(blockIdx.x) * p.stride + token];
    const float scaled = logit > 0.0f ? logit / params.repetition : logit * params.repetition;
    logit = scaled - count * params.frequency - params.presence;
}
