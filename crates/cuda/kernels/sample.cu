// Draws one token per row: the largest logit, or the largest of logit / temperature + Gumbel noise among the tokens kept.
//
// With few rows several blocks share a row; the last one to end compares their results. With top-k, top-p or min-p, blocks list
// likely tokens and the last one cuts; it reads the row again where the lists are not enough.
#include "common/bf16.cuh"
#include "common/order.cuh"
#include "sample/candidates.cuh"
#include "sample/cut.cuh"

struct SampleLaunch {
    const float* logits;
    const SampleParams* params;
    const uint32_t* positions;
    const uint32_t* table_rows;
    uint32_t* out;
    uint32_t* last;
    // Results of blocks, [rows, shares], and how many have ended, one counter per row.
    Best* found;
    uint32_t* arrivals;
    // Surveys of rows that cut, one per segment.
    Segment* segments;
    uint32_t stride;
    uint32_t vocabulary;
    uint32_t shares;
};

union Scratch {
    SurveyScratch survey;
    Histogram histogram;
    Candidates candidates;
};

// True in the last block of a row to end, which then sees the others' results.
__device__ bool ends_last(const SampleLaunch& p, uint32_t row, uint32_t* is_last) {
    __syncthreads();
    if (p.shares == 1) return true;
    if (threadIdx.x == 0) {
        __threadfence();
        *is_last = atomicAdd(p.arrivals + row, 1u) + 1 == p.shares;
        if (*is_last) p.arrivals[row] = 0;
        __threadfence();
    }
    __syncthreads();
    return *is_last;
}

// The best of all tokens; true in the block that has it.
__device__ bool best_of_all(const SampleLaunch& p, const Row& row, const SampleParams& params, uint32_t position,
                            uint32_t number, uint32_t share, Best* bests, uint32_t* word, Best& best) {
    best = row.temperature > 0.0f ? row.best_of_share(params.seed, position, share, p.shares)
                                  : row.largest_of_share(share, p.shares);
    best = block_best(best, bests);
    if (p.shares == 1) return true;
    if (threadIdx.x == 0) p.found[number * p.shares + share] = best;
    if (!ends_last(p, number, word)) return false;
    // A lane per share.
    best = {-INFINITY, kAll};
    if (threadIdx.x < p.shares) {
        const float2 found = __ldcg(reinterpret_cast<const float2*>(p.found + number * p.shares + threadIdx.x));
        best = {found.x, __float_as_uint(found.y)};
    }
    best = warp_best(best);
    return true;
}

// The best of this thread's tokens that top-k, top-p and min-p keep.
__device__ Best best_of_kept(Row& row, const SampleParams& params, uint32_t position, const Segment* segments, uint32_t count,
                             Scratch& scratch, uint32_t* warps) {
    const Summary summary(segments, count);
    row.max = summary.max;
    const float floor = params.min_p > 0.0f ? row.max + logf(params.min_p) : -INFINITY;
    if (summary.is_listed && gather_candidates(segments, count, summary.least, scratch.candidates)) {
        sort_candidates(scratch.candidates);
        const Best best = best_candidate(params, position, summary, floor, scratch.candidates);
        if (scratch.candidates.is_enough) return best;
    }
    __syncthreads();
    row.mass_scale = kMassUnit / static_cast<double>(summary.total);
    const Cut cut = find_cut(row, scratch.histogram, params, static_cast<unsigned long long>(kMassUnit));
    return best_above(row, params, position, cut, floor, warps);
}

extern "C" __global__ void __launch_bounds__(kThreads) sample(const __grid_constant__ SampleLaunch p) {
    __shared__ __align__(16) Scratch scratch;
    __shared__ Best bests[32];
    __shared__ uint32_t warps[32];
    launch_and_wait_on_dependent_grids();
    const uint32_t number = blockIdx.x / p.shares, share = blockIdx.x % p.shares;
    const SampleParams params = p.params[number];
    Row row{p.logits + static_cast<size_t>(number) * p.stride, p.vocabulary, fmaxf(params.temperature, 0.0f), 0.0f, 0.0f, 0.0};
    if (row.temperature > 0.0f) row.reciprocal = 1.0f / row.temperature;
    const uint32_t position = p.positions[number];
    const bool keeps_all = params.top_k == kAll && params.top_p >= 1.0f && params.min_p <= 0.0f;
    Best best;
    if (row.temperature <= 0.0f || keeps_all) {
        if (!best_of_all(p, row, params, position, number, share, bests, warps, best)) return;
    } else {
        const Segments cuts(p.vocabulary);
        Segment* segments = p.segments + static_cast<size_t>(number) * cuts.count;
#pragma unroll 1
        for (uint32_t i = share; i < cuts.count; i += p.shares) survey(row, cuts, i, scratch.survey, segments[i]);
        if (!ends_last(p, number, warps)) return;
        best = block_best(best_of_kept(row, params, position, segments, cuts.count, scratch, warps), bests);
    }
    if (threadIdx.x == 0) {
        const uint32_t token = best.token == kAll ? 0 : best.token;
        p.out[number] = token;
        p.last[p.table_rows[number]] = token;
    }
}

struct LogProbsLaunch {
    const float* logits;
    const uint32_t* targets;
    const float* temperatures;
    float* log_probs;
    uint32_t* top_tokens;
    float* top_log_probs;
    uint32_t stride;
    uint32_t vocabulary;
    uint32_t columns;
    uint32_t top;
};

// Log-probabilities of given tokens, and the most likely tokens one after the other.
extern "C" __global__ void __launch_bounds__(kThreads) log_probs(const __grid_constant__ LogProbsLaunch p) {
    __shared__ Best bests[32];
    __shared__ float sums[33];
    launch_and_wait_on_dependent_grids();
    const float temperature = p.temperatures[blockIdx.x];
    const float scale = temperature > 0.0f ? 1.0f / temperature : 1.0f;
    const float* logits = p.logits + static_cast<size_t>(blockIdx.x) * p.stride;
    float max = -INFINITY, sum = 0.0f;
    for (uint32_t token = threadIdx.x; token < p.vocabulary; token += kThreads) max = fmaxf(max, __fmul_rn(logits[token], scale));
    max = block_max(max, sums);
    for (uint32_t token = threadIdx.x; token < p.vocabulary; token += kThreads) sum += expf(__fmul_rn(logits[token], scale) - max);
    const float norm = logf(block_sum(sum, sums));
    // Rounded before the maximum is subtracted, as the maximum was: a single token has a probability of exactly one.
    const auto log_prob = [&](float logit) { return __fmul_rn(logit, scale) - max - norm; };
    for (uint32_t i = threadIdx.x; i < p.columns; i += kThreads) {
        const size_t at = static_cast<size_t>(blockIdx.x) * p.columns + i;
        p.log_probs[at] = log_prob(logits[p.targets[at]]);
    }
    Best previous{INFINITY, 0};
    for (uint32_t place = 0; place < p.top; ++place) {
        Best best{-INFINITY, kAll};
        for (uint32_t token = threadIdx.x; token < p.vocabulary; token += kThreads) {
            const float value = logits[token];
            const bool later = value < previous.value || (value == previous.value && token > previous.token);
            if (place == 0 || later) best = better(best, {value, token});
        }
        best = block_best(best, bests);
        previous = best;
        if (threadIdx.x == 0) {
            const size_t at = static_cast<size_t>(blockIdx.x) * p.top + place;
            p.top_tokens[at] = best.token == kAll ? 0 : best.token;
            p.top_log_probs[at] = log_prob(best.value);
        }
    }
}
