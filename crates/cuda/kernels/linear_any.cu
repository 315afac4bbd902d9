// GEMM of any shape and alignment.
#include "common/bf16.cuh"
#include "common/order.cuh"
#include "common/reduce.cuh"

struct AnyParams {
    const bf16* x;
    const bf16* weight;
    const bf16* bias;
    void* out;
    uint32_t x_stride;
    uint32_t out_stride;
    uint32_t inputs;
    uint32_t outputs;
    uint32_t wide;
};

// One warp per result.
extern "C" __global__ void __launch_bounds__(256) linear_any(const __grid_constant__ AnyParams p) {
    launch_and_wait_on_dependent_grids();
    const uint32_t output = blockIdx.y * 8 + threadIdx.x / 32;
    if (output >= p.outputs) return;
    const bf16* x = p.x + static_cast<size_t>(blockIdx.x) * p.x_stride;
    const bf16* weight = p.weight + static_cast<size_t>(output) * p.inputs;
    float sum = 0.0f;
    for (uint32_t i = threadIdx.x % 32; i < p.inputs; i += 32) sum += __bfloat162float(x[i]) * __bfloat162float(weight[i]);
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
