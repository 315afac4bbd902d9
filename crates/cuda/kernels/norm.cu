// Root-mean-square normalisation of rows, with and without adding a residual first.
//
// One block a row; a thread keeps its elements in registers, so that memory is read once. Rows that are whole 16-byte
// pieces are read by pieces, others element by element.
#include "common/bf16.cuh"
#include "common/number.cuh"
#include "common/order.cuh"
#include "common/reduce.cuh"

struct NormParams {
    const bf16* x;
    bf16* residual;
    const void* weight;
    bf16* out;
    uint32_t x_stride;
    uint32_t residual_stride;
    uint32_t out_stride;
    uint32_t width;
    uint32_t wide_weight;
    uint32_t pieces;
    float eps;
};

constexpr int kPieces = 2;
constexpr int kElements = 8 * kPieces;

__device__ __forceinline__ void load_weights(const NormParams& p, int piece, float (&weights)[8]) {
    if (p.wide_weight) {
        const float4* from = static_cast<const float4*>(p.weight) + piece * 2;
        const float4 low = from[0], high = from[1];
        weights[0] = low.x, weights[1] = low.y, weights[2] = low.z, weights[3] = low.w;
        weights[4] = high.x, weights[5] = high.y, weights[6] = high.z, weights[7] = high.w;
    } else {
        unpack8(load8(static_cast<const bf16*>(p.weight) + piece * 8), weights);
    }
}

template <bool kAdd>
__device__ __forceinline__ void normalise_pieces(const NormParams& p, float* shared) {
    const size_t row = blockIdx.x;
    const int pieces = p.width / 8;
    float values[kPieces][8], weights[kPieces][8], squares = 0.0f;
    // Weights are there before the predecessor has ended.
#pragma unroll
    for (int i = 0; i < kPieces; ++i) {
        const int piece = threadIdx.x + i * blockDim.x;
        if (piece < pieces) load_weights(p, piece, weights[i]);
    }
    wait_for_predecessor();
#pragma unroll
    for (int i = 0; i < kPieces; ++i) {
        const int piece = threadIdx.x + i * blockDim.x;
        if (piece >= pieces) break;
        unpack8(load8(p.x + row * p.x_stride + piece * 8), values[i]);
        if constexpr (kAdd) {
            bf16* residual = p.residual + row * p.residual_stride + piece * 8;
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
#pragma unroll
    for (int i = 0; i < kPieces; ++i) {
        const int piece = threadIdx.x + i * blockDim.x;
        if (piece >= pieces) break;
#pragma unroll
        for (int j = 0; j < 8; ++j) values[i][j] *= factor * weights[i][j];
        store8(p.out + row * p.out_stride + piece * 8, pack8(values[i]));
    }
}

template <bool kAdd>
__device__ __forceinline__ void normalise_elements(const NormParams& p, float* shared) {
    const size_t row = blockIdx.x;
    float values[kElements], squares = 0.0f;
    wait_for_predecessor();
#pragma unroll
    for (int i = 0; i < kElements; ++i) {
        const uint32_t at = threadIdx.x + i * blockDim.x;
        if (at >= p.width) break;
        values[i] = __bfloat162float(p.x[row * p.x_stride + at]);
        if constexpr (kAdd) {
            bf16& residual = p.residual[row * p.residual_stride + at];
            values[i] += __bfloat162float(residual);
            residual = __float2bfloat16(values[i]);
        }
        squares += values[i] * values[i];
    }
    const float factor = rsqrtf(block_sum(squares, shared) / p.width + p.eps);
#pragma unroll
    for (int i = 0; i < kElements; ++i) {
        const uint32_t at = threadIdx.x + i * blockDim.x;
        if (at >= p.width) break;
        p.out[row * p.out_stride + at] = __float2bfloat16(values[i] * factor * number(p.weight, p.wide_weight, at));
    }
}

template <bool kAdd>
__device__ __forceinline__ void normalise(const NormParams& p) {
    __shared__ float shared[33];
    let_successor_begin();
    if (p.pieces) {
        normalise_pieces<kAdd>(p, shared);
    } else {
        normalise_elements<kAdd>(p, shared);
    }
}

extern "C" __global__ void __launch_bounds__(1024) rms_norm(const __grid_constant__ NormParams p) { normalise<false>(p); }

extern "C" __global__ void __launch_bounds__(1024) add_rms_norm(const __grid_constant__ NormParams p) { normalise<true>(p); }
