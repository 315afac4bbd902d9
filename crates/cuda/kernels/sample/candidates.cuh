// Top-k, top-p and min-p for rows with few likely tokens: the listed candidates are sorted.
#pragma once
#include "survey.cuh"

constexpr int kMostCandidates = 2048;

struct Candidates {
    unsigned long long tokens[kMostCandidates];
    double before[kThreads / 32];
    uint32_t count;
    uint32_t is_enough;
};

// The segments' results, combined.
struct Summary {
    float max;
    float total;
    // Every token at least this large is listed, if it is not minus infinity.
    float least;
    bool is_listed;

    // Each warp sums for itself, in the same order.
    __device__ Summary(const Segment* segments, uint32_t count) : max(-INFINITY), total(0.0f), least(-INFINITY), is_listed(true) {
        const uint32_t lane = threadIdx.x % 32;
#pragma unroll 1
        for (uint32_t i = lane; i < count; i += 32) {
            const float4 head = __ldcg(reinterpret_cast<const float4*>(segments + i));
            max = fmaxf(max, head.x);
            least = fmaxf(least, head.z);
            is_listed &= __float_as_uint(head.w) != kTooMany;
        }
        max = warp_largest(max);
        least = warp_largest(least);
        is_listed = __all_sync(kAll, is_listed);
#pragma unroll 1
        for (uint32_t i = lane; i < count; i += 32) {
            const float4 head = __ldcg(reinterpret_cast<const float4*>(segments + i));
            if (head.x > -INFINITY) total += head.y * expf(head.x - max);
        }
        total = warp_sum(total);
    }
};

__device__ __forceinline__ float value_of(unsigned long long candidate) {
    return unordered(key_number(candidate));
}

// Collects all listed tokens that are as large as asked; false when there are too many.
__device__ inline bool gather_candidates(const Segment* segments, uint32_t count, float least, Candidates& candidates) {
    if (threadIdx.x == 0) candidates.count = 0;
    __syncthreads();
    constexpr uint32_t kAtOnce = 4;
    const uint32_t all = count * kMostListed;
#pragma unroll 1
    for (uint32_t first = threadIdx.x; first < all; first += kAtOnce * kThreads) {
        uint32_t listed[kAtOnce];
        unsigned long long tokens[kAtOnce];
#pragma unroll
        for (uint32_t i = 0; i < kAtOnce; ++i) {
            const uint32_t at = min(first + i * kThreads, all - 1);
            const Segment& segment = segments[at / kMostListed];
            listed[i] = first + i * kThreads < all ? __ldcg(&segment.count) : 0;
            tokens[i] = __ldcg(&segment.tokens[at % kMostListed]);
        }
#pragma unroll
        for (uint32_t i = 0; i < kAtOnce; ++i) {
            if (first % kMostListed >= listed[i] || value_of(tokens[i]) < least) continue;
            const uint32_t at = atomicAdd(&candidates.count, 1u);
            if (at < kMostCandidates) candidates.tokens[at] = tokens[i];
        }
    }
    __syncthreads();
    return candidates.count <= kMostCandidates;
}

// Bitonic sort, the largest first. A warp owns pairs of 64 tokens: comparisons up to 32 apart need no block barrier.
__device__ inline void sort_candidates(Candidates& candidates) {
    static_assert(kMostCandidates <= 2 * kThreads);
    const uint32_t pair = threadIdx.x;
    uint32_t size = 64;
    while (size < candidates.count) size *= 2;
#pragma unroll 1
    for (uint32_t i = candidates.count + threadIdx.x; i < size; i += kThreads) candidates.tokens[i] = 0;
    __syncthreads();
#pragma unroll 1
    for (uint32_t run = 2; run <= size; run *= 2) {
#pragma unroll 1
        for (uint32_t apart = run / 2; apart > 0; apart /= 2) {
            if (pair < size / 2) {
                const uint32_t low = 2 * pair - (pair & (apart - 1)), high = low + apart;
                const unsigned long long a = candidates.tokens[low], b = candidates.tokens[high];
                if ((a < b) == ((low & run) == 0)) {
                    candidates.tokens[low] = b;
                    candidates.tokens[high] = a;
                }
            }
            const uint32_t next = apart > 1 ? apart / 2 : run;
            if (apart > 32 || next > 32) {
                __syncthreads();
            } else {
                __syncwarp();
            }
        }
    }
    __syncthreads();
}

// The best of this thread's candidates that are kept; `is_enough`: whether the cut lies among the candidates at all.
__device__ inline Best best_candidate(const SampleParams& params, uint32_t position, const Summary& row, float floor,
                                      Candidates& candidates) {
    constexpr int kEach = kMostCandidates / kThreads;
    const uint32_t first = threadIdx.x * kEach, lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    static_assert(kEach == 2);
    float masses[kEach];
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
        masses[i] = first + i < candidates.count ? expf(value_of(candidates.tokens[first + i]) - row.max) : 0.0f;
    }
    const double mine = static_cast<double>(masses[0]) + static_cast<double>(masses[1]);
    double before = mine;
#pragma unroll 1
    for (int offset = 1; offset < 32; offset *= 2) {
        const double other = __shfl_up_sync(kAll, before, offset);
        if (lane >= offset) before += other;
    }
    if (lane == 31) candidates.before[warp] = before;
    if (threadIdx.x == 0) {
        candidates.is_enough = candidates.count >= params.top_k || floor > row.least || row.least == -INFINITY;
    }
    __syncthreads();
    before -= mine;
    if (first < candidates.count) {
#pragma unroll 1
        for (int i = 0; i < warp; ++i) before += candidates.before[i];
    }
    Best best{-INFINITY, kAll};
#pragma unroll 1
    for (int i = 0; i < kEach; ++i) {
        if (first + i >= candidates.count) break;
        const float scaled = value_of(candidates.tokens[first + i]);
        const uint32_t token = key_place(candidates.tokens[first + i]);
        const bool in_mass = before < static_cast<double>(params.top_p) * row.total;
        if (!in_mass) candidates.is_enough = 1;
        if (in_mass && first + i < params.top_k && scaled >= floor) {
            best = better(best, {scaled + gumbel_of(params.seed, position, token), token});
        }
        before += static_cast<double>(masses[0]);
    }
    __syncthreads();
    return best;
}
