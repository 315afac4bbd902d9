// One row of logits as a block goes over it, and the best of what it finds.
#pragma once
#include "../common/philox.cuh"
#include "../common/reduce.cuh"
#include "../common/sample_params.cuh"

constexpr int kThreads = 1024;
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

// The best over the block, in every thread; `shared` holds 32.
__device__ __forceinline__ Best block_best(Best best, Best* shared) {
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

struct Row {
    const float* logits;
    uint32_t vocabulary;
    // Zero when the largest logit wins.
    float temperature;
    float max;
    double mass_scale;

    // Minus zero counts as zero.
    __device__ __forceinline__ float scale(float logit) const {
        return (temperature > 0.0f ? logit / temperature : logit) + 0.0f;
    }

    __device__ __forceinline__ float scaled(uint32_t token) const { return scale(logits[token]); }

    __device__ __forceinline__ unsigned long long mass(float scaled) const {
        return static_cast<unsigned long long>(expf(scaled - max) * mass_scale);
    }

    // Four scaled logits; those behind the row's end are minus infinity.
    __device__ __forceinline__ void load_four(uint32_t first, float (&values)[4]) const {
        const uint32_t count = min(vocabulary - first, 4u);
        if (count == 4 && reinterpret_cast<size_t>(logits) % 16 == 0) {
            const float4 all = *reinterpret_cast<const float4*>(logits + first);
            values[0] = all.x, values[1] = all.y, values[2] = all.z, values[3] = all.w;
        } else {
#pragma unroll
            for (uint32_t i = 0; i < 4; ++i) values[i] = i < count ? logits[first + i] : -INFINITY;
        }
#pragma unroll
        for (int i = 0; i < 4; ++i) values[i] = scale(values[i]);
    }

    // Calls visit(first token, four scaled logits, how many count) for this thread's part of the tokens in a share of
    // the row; the parts of all threads and shares make up the row.
    template <typename Visit>
    __device__ __forceinline__ void visit_fours(uint32_t share, uint32_t shares, Visit visit) const {
        const uint32_t fours = (vocabulary + 3) / 4, step = shares * kThreads;
#pragma unroll 4
        for (uint32_t four = share * kThreads + threadIdx.x; four < fours; four += step) {
            float values[4];
            load_four(four * 4, values);
            visit(four * 4, values, min(vocabulary - four * 4, 4u));
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

    // The best of a share of the row, with noise if the temperature is not zero.
    __device__ __forceinline__ Best best_of_share(uint64_t seed, uint32_t position, uint32_t share, uint32_t shares) const {
        Best best{-INFINITY, kAll};
        visit_fours(share, shares, [&](uint32_t first, const float(&values)[4], uint32_t count) {
            uint4 words{};
            if (temperature > 0.0f) words = philox(seed, position, first / 4);
            const uint32_t each[4] = {words.x, words.y, words.z, words.w};
#pragma unroll
            for (uint32_t i = 0; i < 4; ++i) {
                if (i < count) best = better(best, {temperature > 0.0f ? values[i] + noise(each[i]) : values[i], first + i});
            }
        });
        return best;
    }
};
