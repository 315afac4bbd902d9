// out = activation(gate) * up, gate and up side by side in one matrix.
#include "common/activate.cuh"
#include "common/bf16.cuh"
#include "common/order.cuh"

struct ActivationParams {
    const bf16* gate_up;
    bf16* out;
    uint32_t in_stride;
    uint32_t out_stride;
    uint32_t width;
    uint32_t gelu;
    uint32_t pieces;
};

extern "C" __global__ void __launch_bounds__(256) gated_activation(const __grid_constant__ ActivationParams p) {
    begin_after_predecessor();
    const uint32_t thread = blockIdx.x * blockDim.x + threadIdx.x;
    const bf16* gate = p.gate_up + static_cast<size_t>(blockIdx.y) * p.in_stride;
    bf16* out = p.out + static_cast<size_t>(blockIdx.y) * p.out_stride;
    if (!p.pieces) {
        if (thread >= p.width) return;
        const float factor = activate(__bfloat162float(gate[thread]), p.gelu);
        out[thread] = __float2bfloat16(factor * __bfloat162float(gate[p.width + thread]));
        return;
    }
    const uint32_t column = thread * 8;
    if (column >= p.width) return;
    float gates[8], ups[8];
    unpack8(load8(gate + column), gates);
    unpack8(load8(gate + p.width + column), ups);
#pragma unroll
    for (int i = 0; i < 8; ++i) ups[i] *= activate(gates[i], p.gelu);
    store8(out + column, pack8(ups));
}
