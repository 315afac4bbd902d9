// Draws one token a row: the largest logit, or the largest of logit / temperature + Gumbel noise among the tokens kept.
//
// One block a row. Which tokens are kept is found by a radix selection over the ordered bits of the scaled logits: three
// passes narrow the cut to one key, with counts and fixed-point masses so that every run adds up to the same bits.
#include "common/bf16.cuh"
#include "common/order.cuh"
#include "common/philox.cuh"
#include "common/reduce.cuh"
#include "common/sample_params.cuh"

struct SampleLaunch {
    const float* logits;
    const SampleParams* params;
    const uint32_t* positions;
    const uint32_t* table_rows;
    uint32_t* out;
    uint32_t* last;
    uint32_t stride;
    uint32_t vocabulary;
};

constexpr int kThreads = 1024;
constexpr int kBins = 2048;
constexpr uint32_t kAll = 0xffffffffu;
// Masses are shares of the total in steps of 2^-44: the sum of a vocabulary fits 64 bits with room.
constexpr double kMassUnit = 17592186044416.0;

// Unsigned integers in the order of floats.
__device__ __forceinline__ uint32_t ordered(float value) {
    const uint32_t bits = __float_as_uint(value);
    return bits & 0x80000000u ? ~bits : bits | 0x80000000u;
}

struct Best {
    float value;
    uint32_t token;
};

__device__ __forceinline__ Best better(Best a, Best b) {
    return b.value > a.value || (b.value == a.value && b.token < a.token) ? b : a;
}

__device__ Best block_best(Best best, Best* shared) {
    for (int offset = 16; offset > 0; offset /= 2) {
        const Best other = {__shfl_xor_sync(kAll, best.value, offset), __shfl_xor_sync(kAll, best.token, offset)};
        best = better(best, other);
    }
    __syncthreads();
    if (threadIdx.x % 32 == 0) shared[threadIdx.x / 32] = best;
    __syncthreads();
    best = shared[threadIdx.x % 32];
    for (int offset = 16; offset > 0; offset /= 2) {
        const Best other = {__shfl_xor_sync(kAll, best.value, offset), __shfl_xor_sync(kAll, best.token, offset)};
        best = better(best, other);
    }
    return best;
}

// The tokens kept: all with a key above `key`, and of those with that key the first `ties` by id.
struct Cut {
    uint32_t key;
    uint32_t ties;
};

struct Histogram {
    uint32_t counts[kBins];
    unsigned long long masses[kBins];
    uint32_t bin;
    uint32_t count_before;
    unsigned long long mass_before;
};

struct Row {
    const float* logits;
    uint32_t vocabulary;
    // Zero when the largest logit wins.
    float temperature;
    float max;
    double mass_scale;

    // Calls visit(token, scaled) for all tokens of this thread, four neighbours at a time.
    template <typename Visit>
    __device__ void visit_all(Visit visit) const {
        const bool even = reinterpret_cast<size_t>(logits) % 16 == 0;
        const uint32_t fours = even ? vocabulary / 4 : 0;
#pragma unroll 4
        for (uint32_t four = threadIdx.x; four < fours; four += kThreads) {
            const float4 values = reinterpret_cast<const float4*>(logits)[four];
            visit(four * 4, scale(values.x));
            visit(four * 4 + 1, scale(values.y));
            visit(four * 4 + 2, scale(values.z));
            visit(four * 4 + 3, scale(values.w));
        }
        for (uint32_t token = fours * 4 + threadIdx.x; token < vocabulary; token += kThreads) visit(token, scaled(token));
    }

    // Minus zero counts as zero.
    __device__ float scale(float logit) const { return (temperature > 0.0f ? logit / temperature : logit) + 0.0f; }

    __device__ float scaled(uint32_t token) const { return scale(logits[token]); }

    __device__ unsigned long long mass(float scaled) const {
        return static_cast<unsigned long long>(expf(scaled - max) * mass_scale);
    }
};

// Narrows the cut by `bits` bits below `shift + bits`: fills the histogram of the keys that share `prefix` above, then
// finds the bin in which the count or the mass is used up.
__device__ void narrow(const Row& row, Histogram& histogram, uint32_t prefix, int shift, int bits, uint32_t top_k,
                       unsigned long long top_mass) {
    for (int i = threadIdx.x; i < kBins; i += kThreads) {
        histogram.counts[i] = 0;
        histogram.masses[i] = 0;
    }
    __syncthreads();
    row.visit_all([&](uint32_t, float scaled) {
        const uint32_t key = ordered(scaled);
        if (shift + bits < 32 && key >> (shift + bits) != prefix) return;
        const uint32_t bin = key >> shift & ((1u << bits) - 1);
        atomicAdd(&histogram.counts[bin], 1u);
        atomicAdd(&histogram.masses[bin], row.mass(scaled));
    });
    __syncthreads();
    if (threadIdx.x == 0) {
        uint32_t count = histogram.count_before;
        unsigned long long mass = histogram.mass_before;
        int bin = (1 << bits) - 1;
        for (; bin > 0; --bin) {
            const bool full = count + histogram.counts[bin] >= top_k || mass + histogram.masses[bin] >= top_mass;
            if (histogram.counts[bin] > 0 && full) break;
            count += histogram.counts[bin];
            mass += histogram.masses[bin];
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
    narrow(row, histogram, 0, 21, 11, top_k, top_mass);
    uint32_t key = histogram.bin;
    narrow(row, histogram, key, 10, 11, top_k, top_mass);
    key = key << 11 | histogram.bin;
    narrow(row, histogram, key, 0, 10, top_k, top_mass);
    const uint32_t bin = histogram.bin, equal = histogram.counts[bin];
    key = key << 10 | bin;
    const unsigned long long each = equal ? histogram.masses[bin] / equal : 0;
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
    for (int i = 0; i < kThreads / 32; ++i) {
        if (i < warp) before += warps[i];
        total += warps[i];
    }
    seen += total;
    return before + __popc(mask & ((1u << lane) - 1));
}

// The best of this thread's tokens that top-k, top-p and min-p keep.
__device__ Best best_of_kept(Row& row, const SampleParams& params, uint32_t position, Histogram& histogram, float* sums,
                             uint32_t* warps) {
    float max = -INFINITY, sum = 0.0f;
    row.visit_all([&](uint32_t, float scaled) { max = fmaxf(max, scaled); });
    row.max = block_max(max, sums);
    row.visit_all([&](uint32_t, float scaled) { sum += expf(scaled - row.max); });
    row.mass_scale = kMassUnit / static_cast<double>(block_sum(sum, sums));
    const Cut cut = find_cut(row, histogram, params, static_cast<unsigned long long>(kMassUnit));
    const float floor = params.min_p > 0.0f ? row.max + logf(params.min_p) : -INFINITY;
    Best best{-INFINITY, kAll};
    uint32_t seen = 0;
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
        if (kept) best = better(best, {scaled + gumbel(params.seed, position, token), token});
    }
    return best;
}

extern "C" __global__ void __launch_bounds__(kThreads) sample(const __grid_constant__ SampleLaunch p) {
    __shared__ Histogram histogram;
    __shared__ Best bests[32];
    __shared__ float sums[33];
    __shared__ uint32_t warps[32];
    begin_after_predecessor();
    const SampleParams params = p.params[blockIdx.x];
    Row row{p.logits + static_cast<size_t>(blockIdx.x) * p.stride, p.vocabulary, params.temperature, 0.0f, 0.0};
    const bool greedy = params.temperature <= 0.0f;
    const uint32_t position = p.positions[blockIdx.x];
    Best best{-INFINITY, kAll};
    if (greedy || (params.top_k == kAll && params.top_p >= 1.0f && params.min_p <= 0.0f)) {
        row.visit_all([&](uint32_t token, float scaled) {
            best = better(best, {greedy ? scaled : scaled + gumbel(params.seed, position, token), token});
        });
    } else {
        best = best_of_kept(row, params, position, histogram, sums, warps);
    }
    best = block_best(best, bests);
    if (threadIdx.x == 0) {
        const uint32_t token = best.token == kAll ? 0 : best.token;
        p.out[blockIdx.x] = token;
        p.last[p.table_rows[blockIdx.x]] = token;
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
    begin_after_predecessor();
    const float temperature = p.temperatures[blockIdx.x];
    const float scale = temperature > 0.0f ? 1.0f / temperature : 1.0f;
    const float* logits = p.logits + static_cast<size_t>(blockIdx.x) * p.stride;
    float max = -INFINITY, sum = 0.0f;
    for (uint32_t token = threadIdx.x; token < p.vocabulary; token += kThreads) max = fmaxf(max, logits[token] * scale);
    max = block_max(max, sums);
    for (uint32_t token = threadIdx.x; token < p.vocabulary; token += kThreads) sum += expf(logits[token] * scale - max);
    const float norm = max + logf(block_sum(sum, sums));
    for (uint32_t i = threadIdx.x; i < p.columns; i += kThreads) {
        const size_t at = static_cast<size_t>(blockIdx.x) * p.columns + i;
        p.log_probs[at] = logits[p.targets[at]] * scale - norm;
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
            p.top_log_probs[at] = best.value * scale - norm;
        }
    }
}
