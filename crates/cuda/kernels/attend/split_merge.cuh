// Results of four warps become the result of a chunk, and results of chunks the result of a row.
//
// Both are added in a fixed order by the same instructions wherever it happens, so that it does not matter whether one
// block went over a whole row or many shared it.
#pragma once
#include "../common/approximate.cuh"
#include "params.cuh"

constexpr int kWarps = 4;
constexpr int kThreads = 32 * kWarps;
constexpr int kGroupColumns = 8;

// A running softmax: the largest score, the sum of weights, and one element of the weighted sum.
struct Softmax {
    float max;
    float total;
    float sum;

    __device__ void add(const Softmax& other) {
        const float larger = fmaxf(max, other.max);
        const float kept = power_of_two(max - larger), added = power_of_two(other.max - larger);
        total = __fmaf_rn(total, kept, __fmul_rn(other.total, added));
        sum = __fmaf_rn(sum, kept, __fmul_rn(other.sum, added));
        max = larger;
    }
};

constexpr Softmax kNothing{kLowest, 0.0f, 0.0f};

// Where the warps of a block meet: eight columns at a time.
template <int kDim>
struct Meeting {
    float sums[kWarps][kGroupColumns][kDim + 4];
    float maxima[kWarps][kGroupColumns];
    float totals[kWarps][kGroupColumns];
    // Words for the block's decisions.
    uint32_t words[8];

    // Elements that a thread takes care of, and which those are.
    static constexpr int kElements = kGroupColumns * kDim / kThreads;
    __device__ static uint32_t column(int i) { return (threadIdx.x + i * kThreads) / kDim; }
    __device__ static uint32_t element(int i) { return (threadIdx.x + i * kThreads) % kDim; }

    __device__ Softmax chunk(int i) const {
        const uint32_t column = Meeting::column(i), element = Meeting::element(i);
        Softmax all{maxima[0][column], totals[0][column], sums[0][column][element]};
#pragma unroll
        for (int warp = 1; warp < kWarps; ++warp) {
            all.add({maxima[warp][column], totals[warp][column], sums[warp][column][element]});
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
        __stcg(sums + (static_cast<size_t>(chunk) * kColumns + column) * kDim + element, result.sum);
        if (element == 0) {
            __stcg(scales + (chunk * kColumns + column) * 2, result.max);
            __stcg(scales + (chunk * kColumns + column) * 2 + 1, result.total);
        }
    }

    __device__ Softmax load(uint32_t chunk, uint32_t column, uint32_t element) const {
        const float* scale = scales + (chunk * kColumns + column) * 2;
        return {__ldcg(scale), __ldcg(scale + 1),
                __ldcg(sums + (static_cast<size_t>(chunk) * kColumns + column) * kDim + element)};
    }
};
