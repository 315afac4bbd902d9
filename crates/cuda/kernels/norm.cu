// RMS norm of rows, with or without a residual add before it.
//
// A block takes a row, or every `gridDim.x`th row; a thread keeps its elements in registers, so memory is read once. Rows that
// are 16-byte aligned are read by vectors, others element by element, one block each. `kParts`: matrices added to the residual
// (two after a split-K GEMM, the second after all rows of the first); zero: x itself is normalised.
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
    uint32_t rows;
    uint32_t wide_weight;
    uint32_t vectors;
    float eps;
};

// Most elements of a thread.
constexpr int kElements = 16;

// Sums of a block's warps, double-buffered by row: others may still read the previous row's.
using Sums = float[2][32];

// The block's sum, in every thread.
__device__ __forceinline__ float row_sum(float value, float (&sums)[32]) {
    const uint32_t lane = threadIdx.x % 32;
    value = warp_sum(value);
    if (lane == 0) sums[threadIdx.x / 32] = value;
    __syncthreads();
    return warp_sum(lane < blockDim.x / 32 ? sums[lane] : 0.0f);
}

// Calls `each` for every vector of a row that this thread keeps.
template <int kVectors, typename Each>
__device__ __forceinline__ void each_vector(const NormParams& p, Each each) {
#pragma unroll
    for (int i = 0; i < kVectors; ++i) {
        const uint32_t vector = threadIdx.x + i * blockDim.x;
        if (vector < p.width / 8) each(i, vector * 8);
    }
}

__device__ __forceinline__ void add8(const Bf16x8& some, float (&values)[8]) {
    float numbers[8];
    unpack8(some, numbers);
#pragma unroll
    for (int j = 0; j < 8; ++j) values[j] += numbers[j];
}

// A row's elements.
template <int kParts, int kVectors>
struct Row {
    Bf16x8 x[kVectors], second[kVectors], before[kVectors];

    __device__ __forceinline__ void load(const NormParams& p, size_t row) {
        each_vector<kVectors>(p, [&](int i, uint32_t at) {
            x[i] = load8(p.x + row * p.x_stride + at);
            if constexpr (kParts == 2) second[i] = load8(p.x + (p.rows + row) * p.x_stride + at);
            if constexpr (kParts > 0) before[i] = load8(p.residual + row * p.residual_stride + at);
        });
    }

    // Adds the residual; returns the sum of squares.
    __device__ __forceinline__ float add(const NormParams& p, size_t row, float (&values)[kVectors][8]) const {
        float squares = 0.0f;
        each_vector<kVectors>(p, [&](int i, uint32_t at) {
            unpack8(x[i], values[i]);
            if constexpr (kParts == 2) add8(second[i], values[i]);
            if constexpr (kParts > 0) {
                add8(before[i], values[i]);
                store8(p.residual + row * p.residual_stride + at, pack8(values[i]));
            }
#pragma unroll
            for (int j = 0; j < 8; ++j) squares += values[i][j] * values[i][j];
        });
        return squares;
    }
};

template <int kParts, int kVectors>
__device__ __forceinline__ void normalise_vectors(const NormParams& p, Sums& sums) {
    float weights[kVectors][8], values[kVectors][8];
    // Norm weights may be read before the predecessor has ended.
    each_vector<kVectors>(p, [&](int i, uint32_t at) { numbers(p.weight, p.wide_weight, at, weights[i]); });
    wait_on_dependent_grids();
    size_t row = blockIdx.x;
    const auto finish = [&](float squares, float (&parts)[32]) {
        const float factor = rsqrtf(row_sum(squares, parts) / p.width + p.eps);
        each_vector<kVectors>(p, [&](int i, uint32_t at) {
#pragma unroll
            for (int j = 0; j < 8; ++j) values[i][j] *= factor * weights[i][j];
            store8(p.out + row * p.out_stride + at, pack8(values[i]));
        });
    };
    Row<kParts, kVectors> next;
    next.load(p, row);
    // The next row is loaded while one is summed.
#pragma unroll 1
    for (uint32_t turn = 0; row < p.rows; row += gridDim.x, turn ^= 1) {
        const float squares = next.add(p, row, values);
        if (row + gridDim.x < p.rows) next.load(p, row + gridDim.x);
        finish(squares, sums[turn]);
    }
}

template <int kParts>
__device__ __forceinline__ void normalise_elements(const NormParams& p, Sums& sums) {
    const size_t row = blockIdx.x;
    float values[kElements], squares = 0.0f;
    wait_on_dependent_grids();
#pragma unroll
    for (int i = 0; i < kElements; ++i) {
        const uint32_t at = threadIdx.x + i * blockDim.x;
        if (at >= p.width) break;
        values[i] = __bfloat162float(p.x[row * p.x_stride + at]);
        if constexpr (kParts > 0) {
            bf16& residual = p.residual[row * p.residual_stride + at];
            values[i] += __bfloat162float(residual);
            residual = __float2bfloat16(values[i]);
        }
        squares += values[i] * values[i];
    }
    const float factor = rsqrtf(row_sum(squares, sums[0]) / p.width + p.eps);
#pragma unroll
    for (int i = 0; i < kElements; ++i) {
        const uint32_t at = threadIdx.x + i * blockDim.x;
        if (at >= p.width) break;
        p.out[row * p.out_stride + at] = __float2bfloat16(values[i] * factor * number(p.weight, p.wide_weight, at));
    }
}

// Rows of at most 8192 elements, by vectors.
template <int kParts>
__device__ __forceinline__ void normalise_short(const NormParams& p) {
    __shared__ Sums sums;
    launch_dependent_grids();
    normalise_vectors<kParts, 1>(p, sums);
}

template <int kParts>
__device__ __forceinline__ void normalise_any(const NormParams& p) {
    __shared__ Sums sums;
    launch_dependent_grids();
    if (p.vectors) {
        normalise_vectors<kParts, kElements / 8>(p, sums);
    } else {
        normalise_elements<kParts>(p, sums);
    }
}

// With 40 registers three blocks of 512 threads fit an SM, and one can begin before another ends.
#define NORM(name, how, parts, limit) \
    extern "C" __global__ void limit name(const __grid_constant__ NormParams p) { how<parts>(p); }

NORM(rms_norm_short, normalise_short, 0, __maxnreg__(40))
NORM(add_rms_norm_short, normalise_short, 1, __maxnreg__(40))
NORM(add_split_k_norm_short, normalise_short, 2, __maxnreg__(40))
NORM(rms_norm_any, normalise_any, 0, __launch_bounds__(1024))
NORM(add_rms_norm_any, normalise_any, 1, __launch_bounds__(1024))
