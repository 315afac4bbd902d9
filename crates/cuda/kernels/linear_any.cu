// Products of any shape and alignment, and what dense products need besides.
#include "common/bf16.cuh"
#include "common/order.cuh"
#include "common/reduce.cuh"

struct AnyParams {
    const bf16* x;
    const bf16* weight;
    const float* bias;
    void* out;
    uint32_t x_stride;
    uint32_t out_stride;
    uint32_t inputs;
    uint32_t outputs;
    uint32_t wide;
};

// One warp a number.
extern "C" __global__ void __launch_bounds__(256) linear_any(const __grid_constant__ AnyParams p) {
    begin_after_predecessor();
    const uint32_t output = blockIdx.x * 8 + threadIdx.x / 32;
    if (output >= p.outputs) return;
    const bf16* x = p.x + static_cast<size_t>(blockIdx.y) * p.x_stride;
    const bf16* weight = p.weight + static_cast<size_t>(output) * p.inputs;
    float sum = 0.0f;
    for (uint32_t i = threadIdx.x % 32; i < p.inputs; i += 32) sum += __bfloat162float(x[i]) * __bfloat162float(weight[i]);
    sum = warp_sum(sum);
    if (threadIdx.x % 32 != 0) return;
    if (p.bias) sum += p.bias[output];
    const size_t at = static_cast<size_t>(blockIdx.y) * p.out_stride + output;
    if (p.wide) {
        static_cast<float*>(p.out)[at] = sum;
    } else {
        static_cast<bf16*>(p.out)[at] = __float2bfloat16(sum);
    }
}

struct RoundParams {
    const float* from;
    bf16* to;
    uint32_t count;
};

// A bias in the type of the results, as cuBLASLt wants it.
extern "C" __global__ void __launch_bounds__(256) round_values(const __grid_constant__ RoundParams p) {
    begin_after_predecessor();
    const uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < p.count) p.to[i] = __float2bfloat16(p.from[i]);
}
