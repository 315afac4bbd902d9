// One pass over a part of a row: its largest logit, the sum of its weights, and its likely tokens.
//
// Segments depend on the row alone, not on the block, so that sums are rounded alike in any batch.
#pragma once
#include <cfloat>

#include "row.cuh"

constexpr int kFours = 3;
constexpr uint32_t kMostListed = 256;
constexpr uint32_t kTooMany = 0xffffffffu;

struct alignas(16) Segment {
    float max;
    // Of exp(scaled - max).
    float sum;
    // Every token at least this large is listed, if it is not minus infinity.
    float least;
    uint32_t count;
    // Key above, inverted id below, so that equal keys sort by rising id.
    unsigned long long tokens[kMostListed];
};

struct SurveyScratch {
    float maxima[32];
    uint32_t counts[2][32];
    float sums[33];
};

// A row's segments: their count, and groups of four tokens in each.
struct Segments {
    uint32_t fours;
    uint32_t count;
    uint32_t each;

    __device__ explicit Segments(uint32_t vocabulary)
        : fours((vocabulary + 3) / 4), count(max(1u, (fours + kFours * kThreads - 1) / (kFours * kThreads))),
          each((fours + count - 1) / count) {}
};

// This thread's tokens of a segment; those past its end are minus infinity.
struct Part {
    uint32_t first[kFours];
    float values[kFours][4];

    __device__ Part(const Row& row, const Segments& segments, uint32_t number) {
        const uint32_t begin = number * segments.each, end = min(begin + segments.each, segments.fours);
        float4 loaded[kFours];
#pragma unroll
        for (int i = 0; i < kFours; ++i) {
            const uint32_t four = begin + i * kThreads + threadIdx.x;
            first[i] = four * 4;
            loaded[i] = row.load_four(four < end ? first[i] : row.vocabulary);
        }
#pragma unroll
        for (int i = 0; i < kFours; ++i) row.scale_four(loaded[i], values[i]);
    }
};

// Offsets of this warp's listed tokens, and the count of all warps. Has a barrier, after which `counts` may be reused.
__device__ __forceinline__ uint32_t place_of_warp(const Part& part, float least, uint32_t* counts, uint32_t& mine, uint32_t& all) {
    const uint32_t lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    mine = 0;
#pragma unroll
    for (int i = 0; i < kFours; ++i) {
#pragma unroll
        for (int j = 0; j < 4; ++j) mine += part.values[i][j] >= least;
    }
    const uint32_t of_warp = __reduce_add_sync(kAll, mine);
    if (lane == 0) counts[warp] = of_warp;
    __syncthreads();
    const uint32_t other = counts[lane];
    all = __reduce_add_sync(kAll, other);
    return __reduce_add_sync(kAll, lane < warp ? other : 0);
}

// Lists the tokens at least as large as the least of the warps' maxima; where those are too many, of the maxima of groups of
// four warps.
__device__ inline void list_likely(const Part& part, float largest, float (&leasts)[2], SurveyScratch& scratch, Segment& segment) {
    uint32_t mine, all, at;
    float least, finite;
#pragma unroll 1
    for (uint32_t turn = 0;; ++turn) {
        least = turn == 0 ? leasts[0] : leasts[1];
        // Minus infinity is never listed.
        finite = fmaxf(least, -FLT_MAX);
        at = place_of_warp(part, finite, scratch.counts[turn], mine, all);
        if (all <= kMostListed || turn == 1) break;
    }
    if (threadIdx.x == 0) {
        segment.max = largest;
        segment.least = least;
        segment.count = all > kMostListed ? kTooMany : all;
    }
    if (all > kMostListed) return;
    uint32_t before = mine;
#pragma unroll
    for (int offset = 1; offset < 32; offset *= 2) {
        const uint32_t other = __shfl_up_sync(kAll, before, offset);
        if (threadIdx.x % 32 >= offset) before += other;
    }
    at += before - mine;
#pragma unroll
    for (int i = 0; i < kFours; ++i) {
#pragma unroll
        for (int j = 0; j < 4; ++j) {
            if (!(part.values[i][j] >= finite)) continue;
            segment.tokens[at++] = place_key(ordered(part.values[i][j]), part.first[i] + j);
        }
    }
}

__device__ inline void survey(const Row& row, const Segments& segments, uint32_t number, SurveyScratch& scratch,
                              Segment& segment) {
    const uint32_t lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const Part part(row, segments, number);
    float largest = -INFINITY, sum = 0.0f;
#pragma unroll
    for (int i = 0; i < kFours; ++i) {
#pragma unroll
        for (int j = 0; j < 4; ++j) largest = fmaxf(largest, part.values[i][j]);
    }
    largest = warp_largest(largest);
    if (lane == 0) scratch.maxima[warp] = largest;
    __syncthreads();
    const float other = scratch.maxima[lane];
    largest = warp_largest(other);
    // Warps past the end of the segment do not count.
    const bool has = number * segments.each + lane * 32 < segments.fours && lane * 32 < segments.each;
    float four = has ? other : -INFINITY;
    four = fmaxf(four, __shfl_xor_sync(kAll, four, 1));
    four = fmaxf(four, __shfl_xor_sync(kAll, four, 2));
    const bool some = __shfl_sync(kAll, has, lane / 4 * 4);
    float leasts[2] = {-warp_largest(has ? -other : -INFINITY), -warp_largest(some ? -four : -INFINITY)};
    list_likely(part, largest, leasts, scratch, segment);
    if (largest > -INFINITY) {
#pragma unroll
        for (int i = 0; i < kFours; ++i) {
#pragma unroll
            for (int j = 0; j < 4; ++j) sum += expf(part.values[i][j] - largest);
        }
    }
    sum = block_sum(sum, scratch.sums);
    if (threadIdx.x == 0) segment.sum = sum;
}
