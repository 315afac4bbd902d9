// Root-mean-square normalisation of rows, with and without adding a residual first.
//
// One block a row; a thread keeps its eight-element vectors in registers, so that memory is read once.
#include "common/bf16.cuh"
#include "common/reduce.cuh"

struct NormParams {
    const bf16* x;
    bf16* residual;
    const float* weight;
    bf16* out;
    uint32_t x_stride;
    uint32_t residual_stride;
    uint32_t out_stride;
    uint32_t width;
    float eps;
};

constexpr int kVectors = 4;

template <bool kAdd>
__device__ __forceinline__ void normalise_row(const NormParams& p) {
    __shared__ float shared[33];
    const size_t row = blockIdx.x;
    const bf16* x = p.x + row * p.x_stride;
    const int vectors = p.width / 8;
    float values[kVectors][8];
    begin_after_predecessor();
    float squares = 0.0f;
#pragma unroll
    for (int i = 0; i < kVectors; ++i) {
        const int vector = threadIdx.x + i * blockDim.x;
        if (vector >= vectors) break;
        unpack8(load8(x + vector * 8), values[i]);
        if constexpr (kAdd) {
            bf16* residual = p.residual + row * p.residual_stride + vector * 8;
            float before[8];
            unpack8(load8(residual), before);
#pragma unroll
            for (int j = 0; j < 8; ++j) values[i][j] += before[j];
            store8(residual, pack8(values[i]));
        }
#pragma unroll
        for (int j = 0; j < 8; ++j) squares += values[i][j] * values[i][j];
    }
    const float factor = rsqrtf(block_sum(squares, shared) / p.width + p.eps);
    bf16* out = p.out + row * p.out_stride;
#pragma unroll
    for (int i = 0; i < kVectors; ++i) {
        const int vector = threadIdx.x + i * blockDim.x;
        if (vector >= vectors) break;
        const float4 low = *reinterpret_cast<const float4*>(p.weight + vector * 8);
        const float4 high = *reinterpret_cast<const float4*>(p.weight + vector * 8 + 4);
        const float weights[8] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
#pragma unroll
        for (int j = 0; j < 8; ++j) values[i][j] *= factor * weights[j];
        store8(out + vector * 8, pack8(values[i]));
    }
}

extern "C" __global__ void rms_norm(const __grid_constant__ NormParams p) { normalise_row<false>(p); }

extern "C" __global__ void add_rms_norm(const __grid_constant__ NormParams p) { normalise_row<true>(p); }
