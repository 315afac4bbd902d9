// Weights that no table of a folded weight has, added to the sums of a warp's sixteen rows.
#pragma once
#include "../common/bf16.cuh"
#include "../common/fold.cuh"

// Of the rows of two blocks, the upper and the lower one, and as many rows of x. Few warps have one at all.
template <int kTokens>
struct Strays {
    static constexpr uint32_t kHalves = (kTokens + 31) / 32;

    const bf16* x;
    const uint32_t stride;
    const uint32_t rows;
    // Of this lane: the weight, and its stand-in above. The first to come has the greatest key; none has zero.
    uint32_t weights;
    uint32_t key;
    // The stray whose turn it is, and its column of x.
    uint32_t next;
    float column[kHalves];

    // Those that lie in some stages; each lane has one of its block's.
    __device__ __forceinline__ Strays(const bf16* from, uint32_t x_stride, uint32_t x_rows, uint2 stray, uint32_t begin,
                                      uint32_t end)
        : x(from), stride(x_stride), rows(x_rows), weights(stray.y) {
        const uint32_t place = stray.x & 0xffff, row = stray.x >> 16, stage = place / kUnitInputs;
        const bool counts = row != 0 && stage >= begin && stage < end;
        key = counts ? ~(place << 4 | threadIdx.x / 16 % 2 << 3 | (row - 1)) : 0;
        ask();
    }

    // Must be called by whole warps.
    __device__ __forceinline__ void add(float (&sums)[kTokens / 2]) {
#pragma unroll 1
        while (next != 0) {
            const uint32_t owner = __ffs(__ballot_sync(0xffffffffu, key == next)) - 1;
            add_one(__shfl_sync(0xffffffffu, weights, owner), sums);
            if (threadIdx.x % 32 == owner) key = 0;
            ask();
        }
    }

private:
    __device__ __forceinline__ void ask() {
        next = __reduce_max_sync(0xffffffffu, key);
        if (next == 0) return;
#pragma unroll
        for (uint32_t i = 0; i < kHalves; ++i) {
            const uint32_t row = i * 32 + threadIdx.x % 32;
            const uint16_t* from = reinterpret_cast<const uint16_t*>(x) + row * stride + (~next >> 4);
            column[i] = row < rows ? __uint_as_float(static_cast<uint32_t>(__ldcg(from)) << 16) : 0.0f;
        }
    }

    __device__ __forceinline__ void add_one(uint32_t both, float (&sums)[kTokens / 2]) const {
        const float weight = __uint_as_float(both << 16), stand_in = __uint_as_float(both & 0xffff0000u);
        const uint32_t lane = threadIdx.x % 32, place = ~next & 15;
#pragma unroll
        for (uint32_t i = 0; i < kTokens / 2; ++i) {
            // A thread has two neighbouring rows of x of every eight, of an upper and of a lower row.
            const float number = __shfl_sync(0xffffffffu, column[i / 16], i / 4 % 4 * 8 + lane % 4 * 2 + i % 2);
            if (place == i / 2 % 2 * 8 + lane / 4) sums[i] = fmaf(weight, number, fmaf(-stand_in, number, sums[i]));
        }
    }
};
