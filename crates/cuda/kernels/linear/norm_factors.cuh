// Deferred RMS scale: norm factors of the rows of x, computed while the GEMM runs.
#pragma once
#include "params.cuh"

// Lanes of a warp that compute factors, each of other rows.
constexpr int kFactorLanes = 8;

// Transposing warp reduction of eight numbers: the sum of number i ends in lanes 4i to 4i + 3.
__device__ __forceinline__ float share_out_sums(float (&sums)[8]) {
    const uint32_t lane = threadIdx.x % 32;
#pragma unroll
    for (int half = 4; half > 0; half /= 2) {
        const bool upper = lane & half * 4;
#pragma unroll
        for (int i = 0; i < half; ++i) {
            const float other = __shfl_xor_sync(0xffffffffu, upper ? sums[i] : sums[i + half], half * 4);
            sums[i] = (upper ? sums[i + half] : sums[i]) + other;
        }
    }
    sums[0] += __shfl_xor_sync(0xffffffffu, sums[0], 2);
    return sums[0] + __shfl_xor_sync(0xffffffffu, sums[0], 1);
}

// Warp `warp` of `kWarps` computes the factors of every `step`th row from `begin` on, eight at a time, with many loads in
// flight: a GEMM takes little time from its first inputs to its epilogue. The number of partial sums is a multiple of four.
template <int kWarps>
__device__ __forceinline__ void compute_factors(const EpilogueParams& p, float* factors, uint32_t warp, uint32_t begin,
                                             uint32_t step) {
    const uint32_t lane = threadIdx.x % 32;
#pragma unroll 1
    for (uint32_t first = begin + warp * 8 * step; first < p.rows; first += kWarps * 8 * step) {
        float sums[8] = {};
#pragma unroll 1
        for (uint32_t quad = lane; quad < p.parts / 4; quad += 32) {
#pragma unroll
            for (uint32_t i = 0; i < 8; ++i) {
                const uint32_t row = min(first + i * step, p.rows - 1);
                const float4 some = __ldcg(reinterpret_cast<const float4*>(p.squares + row * p.parts) + quad);
                sums[i] += (some.x + some.y) + (some.z + some.w);
            }
        }
        const float sum = share_out_sums(sums);
        const uint32_t row = first + lane / 4 * step;
        if (lane % 4 == 0 && row < p.rows) factors[row] = rsqrtf(__fdividef(sum, p.width) + p.eps);
    }
}

// All ones, where no norm is deferred.
template <int kWarps, int kRows>
__device__ __forceinline__ void fill_factors(float* factors, uint32_t warp) {
#pragma unroll 1
    for (uint32_t row = warp * 32 + threadIdx.x % 32; row < kRows; row += kWarps * 32) factors[row] = 1.0f;
    __syncwarp();
}

// Arrives at the barrier that counts the factor lanes of all warps.
__device__ __forceinline__ void arrive_factors_ready(Barrier& ready) {
    if (threadIdx.x % 4 == 0) ready.arrive();
}
