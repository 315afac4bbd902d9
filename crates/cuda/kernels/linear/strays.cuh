// Weights that no table of a folded weight has, added to the sums of a warp's sixteen rows.
#pragma once
#include "../common/bf16.cuh"
#include "../common/fold.cuh"

struct WeightAndStandIn {
    float weight;
    float stand_in;

    // The sum with the weight in the place of its stand-in.
    __device__ __forceinline__ float add(float sum, float number) const {
        return fmaf(weight, number, fmaf(-stand_in, number, sum));
    }
};

// Strays of two blocks of eight rows, the upper and the lower one, one a lane, in the order of their columns: that of the list
// is another with every start. Few warps have one at all. Must be used by whole warps.
struct StrayQueue {
    // Of this lane: the weight, and its stand-in above. The first to come has the greatest key; none has zero.
    uint32_t weights;
    uint32_t key;
    // The stray whose turn it is.
    uint32_t next;

    __device__ __forceinline__ StrayQueue(uint2 stray, bool counts) : weights(stray.y) {
        const uint32_t place = stray.x & 0xffff, row = stray.x >> 16;
        key = row != 0 && counts ? ~(place << 4 | threadIdx.x / 16 % 2 << 3 | (row - 1)) : 0;
        look();
    }

    __device__ __forceinline__ bool has_next() const { return next != 0; }
    __device__ __forceinline__ uint32_t column() const { return ~next >> 4; }
    // Which of the sixteen rows has it.
    __device__ __forceinline__ uint32_t place() const { return ~next & 15; }

    __device__ __forceinline__ WeightAndStandIn get() const {
        const uint32_t owner = __ffs(__ballot_sync(0xffffffffu, key == next)) - 1;
        const uint32_t both = __shfl_sync(0xffffffffu, weights, owner);
        return {__uint_as_float(both << 16), __uint_as_float(both & 0xffff0000u)};
    }

    // The next one's turn comes.
    __device__ __forceinline__ void pass() {
        key = key == next ? 0 : key;
        look();
    }

private:
    __device__ __forceinline__ void look() { next = __reduce_max_sync(0xffffffffu, key); }
};

// Those of products with as many rows of x, whose columns are asked for while products run.
template <int kTokens>
struct Strays {
    static constexpr uint32_t kHalves = (kTokens + 31) / 32;

    const bf16* x;
    const uint32_t stride;
    const uint32_t rows;
    StrayQueue queue;
    // Of x, that of the stray whose turn it is.
    float column[kHalves];

    // Those that lie in every `step`th of some stages; each lane has one of its block's.
    __device__ __forceinline__ Strays(const bf16* from, uint32_t x_stride, uint32_t x_rows, uint2 stray, uint32_t begin,
                                      uint32_t end, uint32_t step)
        : x(from), stride(x_stride), rows(x_rows), queue(stray, lies_in(stray, begin, end, step)) {
        ask();
    }

    __device__ __forceinline__ void add(float (&sums)[kTokens / 2]) {
#pragma unroll 1
        while (queue.has_next()) {
            add_one(queue.get(), sums);
            queue.pass();
            ask();
        }
    }

private:
    __device__ __forceinline__ static bool lies_in(uint2 stray, uint32_t begin, uint32_t end, uint32_t step) {
        const uint32_t stage = (stray.x & 0xffff) / kUnitInputs;
        return stage >= begin && stage < end && (stage - begin) % step == 0;
    }

    __device__ __forceinline__ void ask() {
        if (!queue.has_next()) return;
#pragma unroll
        for (uint32_t i = 0; i < kHalves; ++i) {
            const uint32_t row = i * 32 + threadIdx.x % 32;
            const uint16_t* from = reinterpret_cast<const uint16_t*>(x) + row * stride + queue.column();
            column[i] = row < rows ? __uint_as_float(static_cast<uint32_t>(__ldcg(from)) << 16) : 0.0f;
        }
    }

    __device__ __forceinline__ void add_one(const WeightAndStandIn& stray, float (&sums)[kTokens / 2]) const {
        const uint32_t lane = threadIdx.x % 32, place = queue.place();
#pragma unroll
        for (uint32_t i = 0; i < kTokens / 2; ++i) {
            // A thread has two neighbouring rows of x of every eight, of an upper and of a lower row.
            const float number = __shfl_sync(0xffffffffu, column[i / 16], i / 4 % 4 * 8 + lane % 4 * 2 + i % 2);
            if (place == i / 2 % 2 * 8 + lane / 4) sums[i] = stray.add(sums[i], number);
        }
    }
};
