// out = activation(gate) * up, gate and up side by side in one matrix.
#include "common/bf16.cuh"

struct ActivationParams {
    const bf16* gate_up;
    bf16* out;
    uint32_t in_stride;
    uint32_t out_stride;
    uint32_t width;
    uint32_t gelu;
};

__device__ __forceinline__ float silu(float x) { return x / (1.0f + __expf(-x)); }

__device__ __forceinline__ float gelu_tanh(float x) {
    return 0.5f * x * (1.0f + tanhf(0.7978845608f * (x + 0.044715f * x * x * x)));
}

extern "C" __global__ void gated_activation(const __grid_constant__ ActivationParams p) {
    begin_after_predecessor();
    const uint32_t column = (blockIdx.x * blockDim.x + threadIdx.x) * 8;
    if (column >= p.width) return;
    const bf16* row = p.gate_up + static_cast<size_t>(blockIdx.y) * p.in_stride;
    float gate[8], up[8];
    unpack8(load8(row + column), gate);
    unpack8(load8(row + p.width + column), up);
#pragma unroll
    for (int i = 0; i < 8; ++i) up[i] *= p.gelu ? gelu_tanh(gate[i]) : silu(gate[i]);
    store8(p.out + static_cast<size_t>(blockIdx.y) * p.out_stride + column, pack8(up));
}
