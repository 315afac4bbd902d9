// A block's pass over one row of logits, and its argmax.
#pragma once
#include "../common/ordered.cuh"
#include "../common/philox.cuh"
#include "../common/reduce.cuh"
#include "../common/sample_params.cuh"

constexpr int kThreads = 1024;
constexpr uint32_t kAll = 0xffffffffu;
// Masses are shares of the total in steps of 2^-44: the sum of a vocabulary fits 64 bits with room.
constexpr double kMassUnit = 17592186044416.0;

struct Best {
    float value;
    uint32_t token;
};

__device__ __forceinline__ Best better(Best a, Best b) {
    return b.value > a.value || (b.value == a.value && b.token < a.token) ? b : a;
}

// The maximum over the warp, in every lane. No NaNs.
__device__ __forceinline__ float warp_largest(float value) { return unordered(__reduce_max_sync(kAll, ordered(value))); }

// The best over the warp, in every lane. No NaNs.
__device__ __forceinline__ Best warp_best(Best best) {
    // -0 counts as +0.
    const uint32_t own = ordered(best.value + 0.0f), key = __reduce_max_sync(kAll, own);
    return {unordered(key), kAll - __reduce_max_sync(kAll, own == key ? kAll - best.token : 0)};
}

// The best over the block, in every thread; `shared` holds 32.
__device__ __forceinline__ Best block_best(Best best, Best* shared) {
    best = warp_best(best);
    __syncthreads();
    if (threadIdx.x % 32 == 0) shared[threadIdx.x / 32] = best;
    __syncthreads();
    return warp_best(shared[threadIdx.x % 32]);
}

// Not inlined, since it is rare: unused code need not be fetched.
__device__ __noinline__ float4 load_some(const float* from, uint32_t count) {
    float4 values;
    values.x = count > 0 ? from[0] : -INFINITY;
    values.y = count > 1 ? from[1] : -INFINITY;
    values.z = count > 2 ? from[2] : -INFINITY;
    values.w = count > 3 ? from[3] : -INFINITY;
    return values;
}

__device__ __noinline__ float4 divide_four(float4 values, float by) {
    return make_float4(values.x / by, values.y / by, values.z / by, values.w / by);
}

__device__ __noinline__ float gumbel_of(uint64_t seed, uint32_t position, uint32_t token) { return gumbel(seed, position, token); }

struct Row {
    const float* logits;
    uint32_t vocabulary;
    // Zero when the largest logit wins.
    float temperature;
    // Of the temperature, where it is not zero.
    float reciprocal;
    float max;
    double mass_scale;

    // Numbers this far from the ends of the range divide without overflow or underflow on the way; forbidden tokens too.
    __device__ __forceinline__ static bool is_plain(float value) {
        return fabsf(value) >= 0x1p-60f && (fabsf(value) <= 0x1p60f || value == -INFINITY);
    }

    // The bits of logit / temperature: a quotient by the rounded reciprocal, corrected twice (Markstein). Minus infinity becomes a
    // NaN on the way.
    __device__ __forceinline__ float scale_plain(float logit) const {
        float scaled = logit * reciprocal;
#pragma unroll
        for (int i = 0; i < 2; ++i) scaled = fmaf(fmaf(-temperature, scaled, logit), reciprocal, scaled);
        return fmaxf(scaled, -INFINITY);
    }

    // -0 counts as +0.
    __device__ __forceinline__ void scale_four(float4 logits, float (&values)[4]) const {
        if (is_plain(temperature) && is_plain(logits.x) && is_plain(logits.y) && is_plain(logits.z) && is_plain(logits.w)) {
            values[0] = scale_plain(logits.x), values[1] = scale_plain(logits.y);
            values[2] = scale_plain(logits.z), values[3] = scale_plain(logits.w);
        } else {
            const float4 all = divide_four(logits, temperature);
            values[0] = all.x + 0.0f, values[1] = all.y + 0.0f, values[2] = all.z + 0.0f, values[3] = all.w + 0.0f;
        }
    }

    __device__ __forceinline__ float scaled(uint32_t token) const { return logits[token] / temperature + 0.0f; }

    __device__ __forceinline__ unsigned long long mass(float scaled) const {
        return static_cast<unsigned long long>(expf(scaled - max) * mass_scale);
    }

    __device__ __forceinline__ bool is_aligned() const { return reinterpret_cast<size_t>(logits) % 16 == 0; }

    // Four logits; those past the row's end are minus infinity.
    __device__ __forceinline__ float4 load_four(uint32_t first) const {
        const uint32_t count = min(vocabulary - first, 4u);
        return count == 4 && is_aligned() ? *reinterpret_cast<const float4*>(logits + first) : load_some(logits + first, count);
    }

    // Calls visit(first token, four scaled logits, count) for this thread's tokens of a share of the row; all threads and shares
    // together make up the row. Logits are loaded one step ahead.
    template <typename Visit>
    __device__ __forceinline__ void visit_fours(uint32_t share, uint32_t shares, Visit visit) const {
        const uint32_t step = 4 * shares * kThreads;
        uint32_t first = 4 * (share * kThreads + threadIdx.x);
        float4 next = load_four(min(first, vocabulary));
#pragma unroll 1
        for (; first < vocabulary; first += step) {
            float values[4];
            const float4 logits = next;
            next = load_four(min(first + step, vocabulary));
            scale_four(logits, values);
            visit(first, values, min(vocabulary - first, 4u));
        }
    }

    // Calls visit(token, scaled logit) for all of this thread's tokens.
    template <typename Visit>
    __device__ __forceinline__ void visit_all(Visit visit) const {
        visit_fours(0, 1, [&](uint32_t first, const float(&values)[4], uint32_t count) {
#pragma unroll
            for (uint32_t i = 0; i < 4; ++i) {
                if (i < count) visit(first + i, values[i]);
            }
        });
    }

    // The largest logit of a share of the row. A thread sees tokens in rising order.
    __device__ __forceinline__ Best largest_of_share(uint32_t share, uint32_t shares) const {
        constexpr uint32_t kAtOnce = 4;
        const uint32_t step = shares * kThreads, own = share * kThreads + threadIdx.x;
        const uint32_t whole = is_aligned() ? vocabulary / 4 : 0;
        Best best{-INFINITY, kAll};
        const auto take = [&](float value, uint32_t token) {
            if (value > best.value) best = {value, token};
        };
#pragma unroll 1
        for (uint32_t four = own; four < whole; four += kAtOnce * step) {
            float4 values[kAtOnce];
#pragma unroll
            for (uint32_t i = 0; i < kAtOnce; ++i) {
                // Past the end, the last one is visited again, which changes nothing.
                values[i] = reinterpret_cast<const float4*>(logits)[min(four + i * step, whole - 1)];
            }
#pragma unroll
            for (uint32_t i = 0; i < kAtOnce; ++i) {
                const uint32_t first = 4 * min(four + i * step, whole - 1);
                take(values[i].x, first), take(values[i].y, first + 1), take(values[i].z, first + 2), take(values[i].w, first + 3);
            }
        }
#pragma unroll 1
        for (uint32_t token = 4 * whole + own; token < vocabulary; token += step) take(logits[token], token);
        return best;
    }

    // The best of a share of the row, with noise.
    __device__ __forceinline__ Best best_of_share(uint64_t seed, uint32_t position, uint32_t share, uint32_t shares) const {
        Best best{-INFINITY, kAll};
        visit_fours(share, shares, [&](uint32_t first, const float(&values)[4], uint32_t count) {
            const uint4 words = philox(seed, position, first / 4);
            const uint32_t each[4] = {words.x, words.y, words.z, words.w};
#pragma unroll
            for (uint32_t i = 0; i < 4; ++i) {
                if (i < count) best = better(best, {values[i] + noise(each[i]), first + i});
            }
        });
        return best;
    }
};
