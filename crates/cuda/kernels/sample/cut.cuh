// Where top-k and top-p cut, for any row: a radix selection over the ordered bits of the scaled logits. Four passes narrow
// the cut to one key, with counts and fixed-point masses so that every run adds up to the same bits.
#pragma once
#include "row.cuh"

constexpr int kBins = 256;
// Most keys fall into few bins, so warps have private histograms, which are summed later.
constexpr int kCopies = 8;

// The tokens kept: all with a key above `key`, and of those with that key the first `ties` by id.
struct Cut {
    uint32_t key;
    uint32_t ties;
};

struct Histogram {
    uint32_t counts[kCopies][kBins];
    unsigned long long masses[kCopies][kBins];
    uint32_t bin;
    uint32_t count_before;
    unsigned long long mass_before;
};

// Narrows the cut by the eight bits from `shift` on: fills the histogram of the keys that share `prefix` above, then finds
// the bin in which the count or the mass is used up.
__device__ void narrow(const Row& row, Histogram& histogram, uint32_t prefix, int shift, uint32_t top_k,
                       unsigned long long top_mass) {
#pragma unroll 1
    for (int i = threadIdx.x; i < kCopies * kBins; i += kThreads) {
        histogram.counts[i / kBins][i % kBins] = 0;
        histogram.masses[i / kBins][i % kBins] = 0;
    }
    __syncthreads();
    const int copy = threadIdx.x / 32 % kCopies;
    row.visit_all([&](uint32_t, float scaled) {
        const uint32_t key = ordered(scaled);
        if (shift < 24 && key >> (shift + 8) != prefix) return;
        const uint32_t bin = key >> shift & (kBins - 1);
        atomicAdd(&histogram.counts[copy][bin], 1u);
        atomicAdd(&histogram.masses[copy][bin], row.mass(scaled));
    });
    __syncthreads();
    if (threadIdx.x < kBins) {
#pragma unroll 1
        for (int i = 1; i < kCopies; ++i) {
            histogram.counts[0][threadIdx.x] += histogram.counts[i][threadIdx.x];
            histogram.masses[0][threadIdx.x] += histogram.masses[i][threadIdx.x];
        }
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        uint32_t count = histogram.count_before;
        unsigned long long mass = histogram.mass_before;
        int bin = kBins - 1;
#pragma unroll 1
        for (; bin > 0; --bin) {
            const uint32_t here = histogram.counts[0][bin];
            if (here > 0 && (count + here >= top_k || mass + histogram.masses[0][bin] >= top_mass)) break;
            count += here;
            mass += histogram.masses[0][bin];
        }
        histogram.bin = bin;
        histogram.count_before = count;
        histogram.mass_before = mass;
    }
    __syncthreads();
}

__device__ Cut find_cut(const Row& row, Histogram& histogram, const SampleParams& params, unsigned long long total) {
    const uint32_t top_k = params.top_k;
    const unsigned long long top_mass =
        params.top_p >= 1.0f ? ~0ull : static_cast<unsigned long long>(static_cast<double>(total) * params.top_p);
    if (threadIdx.x == 0) {
        histogram.count_before = 0;
        histogram.mass_before = 0;
    }
    __syncthreads();
    uint32_t key = 0;
#pragma unroll 1
    for (int shift = 24; shift >= 0; shift -= 8) {
        narrow(row, histogram, key, shift, top_k, top_mass);
        key = key << 8 | histogram.bin;
    }
    const uint32_t equal = histogram.counts[0][histogram.bin];
    const unsigned long long each = equal ? histogram.masses[0][histogram.bin] / equal : 0;
    uint32_t ties = min(equal, top_k - histogram.count_before);
    if (each > 0 && top_mass != ~0ull) {
        const unsigned long long room = top_mass - min(top_mass, histogram.mass_before);
        const unsigned long long fit = (room + each - 1) / each;
        if (fit < ties) ties = static_cast<uint32_t>(fit);
    }
    return {key, ties == equal ? kAll : ties};
}

// The rank of this thread's token among those of the cut's key, by id; tokens are visited kThreads at a time.
__device__ uint32_t rank_among_ties(bool tie, uint32_t* warps, uint32_t& seen) {
    const uint32_t mask = __ballot_sync(kAll, tie);
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    __syncthreads();
    if (lane == 0) warps[warp] = __popc(mask);
    __syncthreads();
    uint32_t before = seen, total = 0;
#pragma unroll 1
    for (int i = 0; i < kThreads / 32; ++i) {
        if (i < warp) before += warps[i];
        total += warps[i];
    }
    seen += total;
    return before + __popc(mask & ((1u << lane) - 1));
}

// The best of this thread's tokens that the cut and min-p keep.
__device__ Best best_above(const Row& row, const SampleParams& params, uint32_t position, const Cut& cut, float floor,
                           uint32_t* warps) {
    Best best{-INFINITY, kAll};
    uint32_t seen = 0;
#pragma unroll 1
    for (uint32_t base = 0; base < row.vocabulary; base += kThreads) {
        const uint32_t token = base + threadIdx.x;
        const bool inside = token < row.vocabulary;
        const float scaled = inside ? row.scaled(token) : -INFINITY;
        const uint32_t key = ordered(scaled);
        const bool tie = inside && key == cut.key;
        bool kept = inside && scaled >= floor && key >= cut.key;
        if (cut.ties != kAll) {
            const uint32_t rank = rank_among_ties(tie, warps, seen);
            if (tie && rank >= cut.ties) kept = false;
        }
        if (kept) best = better(best, {scaled + gumbel_of(params.seed, position, token), token});
    }
    return best;
}
