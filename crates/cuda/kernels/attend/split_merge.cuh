// Merges results of four warps into a chunk's result, and results of chunks into a row's.
//
// Both merges use a fixed order and the same instructions everywhere, so that results do not depend on how many blocks share a
// row.
#pragma once
#include "../common/approximate.cuh"
#include "params.cuh"

constexpr int kWarps = 4;
constexpr int kThreads = 32 * kWarps;
constexpr int kGroupColumns = 8;

// A running softmax: the largest score, the sum of weights, and four neighbours of the weighted sum.
struct Softmax {
    float max;
    float total;
    float4 sum;

    __device__ void add(const Softmax& other) {
        const float larger = fmaxf(max, other.max);
        const float kept = power_of_two(max - larger), added = power_of_two(other.max - larger);
        const auto both = [&](float mine, float theirs) { return __fmaf_rn(mine, kept, __fmul_rn(theirs, added)); };
        total = both(total, other.total);
        sum = make_float4(both(sum.x, other.sum.x), both(sum.y, other.sum.y), both(sum.z, other.sum.z),
                          both(sum.w, other.sum.w));
        max = larger;
    }
};

__device__ __forceinline__ Softmax nothing() { return {kLowest, 0.0f, make_float4(0.0f, 0.0f, 0.0f, 0.0f)}; }

// Shared memory for the merge of a block's warps, eight columns at a time.
template <int kDim>
struct Meeting {
    float sums[kWarps][kGroupColumns][kDim + 4];
    float maxima[kGroupColumns][kWarps];
    float totals[kGroupColumns][kWarps];
    // Words for decisions of the whole block.
    uint32_t words[16];

    // Groups of four elements per thread, and the first of them.
    static constexpr int kFours = kGroupColumns * kDim / 4 / kThreads;
    __device__ static uint32_t column(int i) { return (threadIdx.x + i * kThreads) / (kDim / 4); }
    __device__ static uint32_t element(int i) { return (threadIdx.x + i * kThreads) % (kDim / 4) * 4; }

    __device__ Softmax chunk(int i) const {
        const uint32_t column = Meeting::column(i), element = Meeting::element(i);
        const float4 max = *reinterpret_cast<const float4*>(maxima[column]);
        const float4 total = *reinterpret_cast<const float4*>(totals[column]);
        Softmax all;
        all.max = fmaxf(fmaxf(max.x, max.y), fmaxf(max.z, max.w));
        const float factors[kWarps] = {power_of_two(max.x - all.max), power_of_two(max.y - all.max),
                                       power_of_two(max.z - all.max), power_of_two(max.w - all.max)};
        all.total = total.x * factors[0] + total.y * factors[1] + total.z * factors[2] + total.w * factors[3];
        all.sum = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
#pragma unroll
        for (int warp = 0; warp < kWarps; ++warp) {
            const float4 part = *reinterpret_cast<const float4*>(&sums[warp][column][element]);
            all.sum.x += part.x * factors[warp];
            all.sum.y += part.y * factors[warp];
            all.sum.z += part.z * factors[warp];
            all.sum.w += part.w * factors[warp];
        }
        return all;
    }
};

// Results of chunks in device memory, for rows that several blocks share; `slot` names the row.
template <int kDim, int kColumns>
struct Partials {
    float* sums;
    float* scales;

    __device__ Partials(const AttendParams& p, uint32_t slot, uint32_t head) {
        const size_t first = (static_cast<size_t>(slot) * p.kv_heads + head) * p.most_chunks;
        sums = p.partial_sums + first * kColumns * kDim;
        scales = p.partial_scales + first * kColumns * 2;
    }

    __device__ void store(uint32_t chunk, uint32_t column, uint32_t element, const Softmax& result) const {
        const size_t place = (static_cast<size_t>(chunk) * kColumns + column) * kDim + element;
        __stcg(reinterpret_cast<float4*>(sums + place), result.sum);
        if (element == 0) __stcg(reinterpret_cast<float2*>(scales) + chunk * kColumns + column, make_float2(result.max, result.total));
    }

    __device__ Softmax load(uint32_t chunk, uint32_t column, uint32_t element) const {
        const float2 scale = __ldcg(reinterpret_cast<const float2*>(scales) + chunk * kColumns + column);
        const size_t place = (static_cast<size_t>(chunk) * kColumns + column) * kDim + element;
        return {scale.x, scale.y, __ldcg(reinterpret_cast<const float4*>(sums + place))};
    }
};
