// Where top-k, top-p and min-p cut, for rows with few likely tokens: those are taken aside and sorted.
#pragma once
#include "row.cuh"

constexpr int kMostCandidates = 2048;
// So many of the threads' largest tokens are candidates, and whatever is as large as the least of them.
constexpr uint32_t kSure = 256;

struct Candidates {
    // Key above, id below, turned so that equal keys sort by rising id.
    unsigned long long tokens[kMostCandidates];
    float largest[kThreads];
    double before[kThreads / 32];
    float least;
    uint32_t count;
    uint32_t is_enough;
};

// Takes aside all tokens that are as large as the kSure-th largest of the threads' own largest; false when too many are.
__device__ bool gather_candidates(const Row& row, Candidates& candidates, float largest) {
    candidates.largest[threadIdx.x] = largest;
    if (threadIdx.x == 0) candidates.count = 0;
    __syncthreads();
    uint32_t rank = 0;
#pragma unroll 4
    for (uint32_t i = 0; i < kThreads; i += 4) {
        const float4 others = *reinterpret_cast<const float4*>(&candidates.largest[i]);
        const float each[4] = {others.x, others.y, others.z, others.w};
#pragma unroll
        for (uint32_t j = 0; j < 4; ++j) {
            rank += each[j] > largest || (each[j] == largest && i + j < threadIdx.x);
        }
    }
    if (rank == kSure - 1) candidates.least = largest;
    __syncthreads();
    const float least = candidates.least;
    row.visit_all([&](uint32_t token, float scaled) {
        if (scaled < least) return;
        const uint32_t at = atomicAdd(&candidates.count, 1u);
        if (at < kMostCandidates) {
            candidates.tokens[at] = static_cast<unsigned long long>(ordered(scaled)) << 32 | (kAll - token);
        }
    });
    __syncthreads();
    return candidates.count <= kMostCandidates;
}

// Sorts them, the largest first.
__device__ void sort_candidates(Candidates& candidates) {
    for (uint32_t i = candidates.count + threadIdx.x; i < kMostCandidates; i += kThreads) candidates.tokens[i] = 0;
    __syncthreads();
    uint32_t size = 32;
    while (size < candidates.count) size *= 2;
    for (uint32_t run = 2; run <= size; run *= 2) {
        for (uint32_t apart = run / 2; apart > 0; apart /= 2) {
            for (uint32_t pair = threadIdx.x; pair < size / 2; pair += kThreads) {
                const uint32_t low = pair / apart * apart * 2 + pair % apart, high = low + apart;
                const unsigned long long a = candidates.tokens[low], b = candidates.tokens[high];
                if ((a < b) == ((low & run) == 0)) {
                    candidates.tokens[low] = b;
                    candidates.tokens[high] = a;
                }
            }
            __syncthreads();
        }
    }
}

__device__ __forceinline__ float value_of(unsigned long long candidate) {
    const uint32_t key = static_cast<uint32_t>(candidate >> 32);
    return __uint_as_float(key & 0x80000000u ? key & 0x7fffffffu : ~key);
}

// The best of this thread's candidates that are kept; `is_enough` says whether the cut lies among them at all.
__device__ Best best_candidate(const Row& row, const SampleParams& params, uint32_t position, float total, float floor,
                               Candidates& candidates) {
    constexpr int kEach = kMostCandidates / kThreads;
    const uint32_t first = threadIdx.x * kEach, lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    double masses[kEach], mine = 0.0;
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
        const bool there = first + i < candidates.count;
        masses[i] = there ? static_cast<double>(expf(value_of(candidates.tokens[first + i]) - row.max)) : 0.0;
        mine += masses[i];
    }
    double before = mine;
    for (int offset = 1; offset < 32; offset *= 2) {
        const double other = __shfl_up_sync(kAll, before, offset);
        if (lane >= offset) before += other;
    }
    if (lane == 31) candidates.before[warp] = before;
    if (threadIdx.x == 0) candidates.is_enough = candidates.count >= params.top_k || floor > candidates.least;
    __syncthreads();
    before -= mine;
    for (int i = 0; i < warp; ++i) before += candidates.before[i];
    Best best{-INFINITY, kAll};
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
        if (first + i >= candidates.count) break;
        const float scaled = value_of(candidates.tokens[first + i]);
        const uint32_t token = kAll - static_cast<uint32_t>(candidates.tokens[first + i]);
        const bool in_mass = before < static_cast<double>(params.top_p) * total;
        if (!in_mass) candidates.is_enough = 1;
        if (in_mass && first + i < params.top_k && scaled >= floor) {
            best = better(best, {scaled + gumbel(params.seed, position, token), token});
        }
        before += masses[i];
    }
    __syncthreads();
    return best;
}
