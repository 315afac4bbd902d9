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
    uint32_t vectors;
};

// 16-byte vectors of a thread, all in flight at once.
constexpr uint32_t kVectors = 2;

extern "C" __global__ void __launch_bounds__(256, 6) gated_activation(const __grid_constant__ ActivationParams p) {
    launch_and_wait_on_dependent_grids();
    const uint32_t thread = blockIdx.y * blockDim.x + threadIdx.x, threads = gridDim.y * blockDim.x;
    const bf16* gate = p.gate_up + static_cast<size_t>(blockIdx.x) * p.in_stride;
    bf16* out = p.out + static_cast<size_t>(blockIdx.x) * p.out_stride;
    if (!p.vectors) {
        for (uint32_t column = thread; column < p.width; column += threads) {
            const float factor = activate(__bfloat162float(gate[column]), p.gelu);
            out[column] = __float2bfloat16(factor * __bfloat162float(gate[p.width + column]));
        }
        return;
    }
    float gates[kVectors][8], ups[kVectors][8];
#pragma unroll
    for (uint32_t i = 0; i < kVectors; ++i) {
        const uint32_t column = (thread + i * threads) * 8;
        if (column >= p.width) break;
        unpack8(load8(gate + column), gates[i]);
        unpack8(load8(gate + p.width + column), ups[i]);
    }
#pragma unroll
    for (uint32_t i = 0; i < kVectors; ++i) {
        const uint32_t column = (thread + i * threads) * 8;
        if (column >= p.width) break;
#pragma unroll
        for (int j = 0; j < 8; ++j) ups[i][j] *= activate(gates[i][j], p.gelu);
        store8(out + column, pack8(ups[i]));
    }
}
