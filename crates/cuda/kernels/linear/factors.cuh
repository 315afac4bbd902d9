// Factors of late norms, one a row of x, worked out while products run.
#pragma once
#include "../common/reduce.cuh"
#include "params.cuh"

// Warp `warp` of `kWarps` works out the factors that rows from `begin` to `end` lack, eight at a time. Many loads are on
// their way at once: a product has little time between its first inputs and its end.
template <int kWarps>
__device__ __forceinline__ void find_factors(const LinearSurroundings& p, float* factors, uint32_t warp, uint32_t begin,
                                             uint32_t end) {
    const uint32_t lane = threadIdx.x % 32;
    const bool even = p.parts % 4 == 0 && reinterpret_cast<uintptr_t>(p.squares) % 16 == 0;
    for (uint32_t first = begin + warp * 8; first < end; first += kWarps * 8) {
        float sums[8] = {};
        const float* rows[8];
#pragma unroll
        for (uint32_t i = 0; i < 8; ++i) rows[i] = p.squares + static_cast<size_t>(min(first + i, end - 1)) * p.parts;
        if (even) {
#pragma unroll 2
            for (uint32_t quad = lane; quad < p.parts / 4; quad += 32) {
#pragma unroll
                for (uint32_t i = 0; i < 8; ++i) {
                    const float4 some = __ldcg(reinterpret_cast<const float4*>(rows[i]) + quad);
                    sums[i] += (some.x + some.y) + (some.z + some.w);
                }
            }
        } else {
            for (uint32_t part = lane; part < p.parts; part += 32) {
#pragma unroll
                for (uint32_t i = 0; i < 8; ++i) sums[i] += __ldcg(rows[i] + part);
            }
        }
#pragma unroll
        for (uint32_t i = 0; i < 8; ++i) {
            const float sum = warp_sum(sums[i]);
            if (lane == 0 && first + i < end) factors[first + i] = rsqrtf(sum / p.width + p.eps);
        }
    }
}
