// Corrections by outliers, the weights that a bf12 table does not cover, to the sums of a warp's sixteen rows.
#pragma once
#include "../common/bf16.cuh"
#include "../common/bf12.cuh"

struct OutlierCorrection {
    float weight;
    float substitute;

    // Replaces the substitute by the weight.
    __device__ __forceinline__ float add(float sum, float number) const {
        return fmaf(weight, number, fmaf(-substitute, number, sum));
    }
};

// Outliers of two blocks of eight rows, one per lane, ordered by column: the list's own order differs from load to load.
// Few warps have any. Must be used by whole warps.
struct OutlierQueue {
    // This lane's weight, with its substitute above. The first in order has the greatest key; 0: none.
    uint32_t weights;
    uint32_t key;
    // Key of the current outlier.
    uint32_t next;

    __device__ __forceinline__ OutlierQueue(uint2 outlier, bool counts) : weights(outlier.y) {
        const uint32_t place = outlier.x & 0xffff, row = outlier.x >> 16;
        key = row != 0 && counts ? ~(place << 4 | threadIdx.x / 16 % 2 << 3 | (row - 1)) : 0;
        look();
    }

    __device__ __forceinline__ bool has_next() const { return next != 0; }
    __device__ __forceinline__ uint32_t column() const { return ~next >> 4; }
    // Its row among the sixteen.
    __device__ __forceinline__ uint32_t place() const { return ~next & 15; }

    __device__ __forceinline__ OutlierCorrection get() const {
        const uint32_t owner = __ffs(__ballot_sync(0xffffffffu, key == next)) - 1;
        const uint32_t both = __shfl_sync(0xffffffffu, weights, owner);
        return {__uint_as_float(both << 16), __uint_as_float(both & 0xffff0000u)};
    }

    // Goes on to the next outlier.
    __device__ __forceinline__ void pop() {
        key = key == next ? 0 : key;
        look();
    }

private:
    __device__ __forceinline__ void look() { next = __reduce_max_sync(0xffffffffu, key); }
};

// For GEMMs of up to `kTokens` rows of x; columns of x are loaded while the GEMM runs.
template <int kTokens>
struct Outliers {
    static constexpr uint32_t kHalves = (kTokens + 31) / 32;

    const bf16* x;
    const uint32_t stride;
    const uint32_t rows;
    OutlierQueue queue;
    // The current outlier's column of x.
    float column[kHalves];

    // Outliers of every `step`th stage of a range; each lane has one of its block's.
    __device__ __forceinline__ Outliers(const bf16* from, uint32_t x_stride, uint32_t x_rows, uint2 outlier, uint32_t begin,
                                      uint32_t end, uint32_t step)
        : x(from), stride(x_stride), rows(x_rows), queue(outlier, lies_in(outlier, begin, end, step)) {
        prefetch();
    }

    __device__ __forceinline__ void add(float (&sums)[kTokens / 2]) {
#pragma unroll 1
        while (queue.has_next()) {
            add_one(queue.get(), sums);
            queue.pop();
            prefetch();
        }
    }

private:
    __device__ __forceinline__ static bool lies_in(uint2 outlier, uint32_t begin, uint32_t end, uint32_t step) {
        const uint32_t stage = (outlier.x & 0xffff) / kUnitInputs;
        return stage >= begin && stage < end && (stage - begin) % step == 0;
    }

    __device__ __forceinline__ void prefetch() {
        if (!queue.has_next()) return;
#pragma unroll
        for (uint32_t i = 0; i < kHalves; ++i) {
            const uint32_t row = i * 32 + threadIdx.x % 32;
            const uint16_t* from = reinterpret_cast<const uint16_t*>(x) + row * stride + queue.column();
            column[i] = row < rows ? __uint_as_float(static_cast<uint32_t>(__ldcg(from)) << 16) : 0.0f;
        }
    }

    __device__ __forceinline__ void add_one(const OutlierCorrection& outlier, float (&sums)[kTokens / 2]) const {
        const uint32_t lane = threadIdx.x % 32, place = queue.place();
#pragma unroll
        for (uint32_t i = 0; i < kTokens / 2; ++i) {
            // A thread has two neighbouring rows of x in every eight, of an upper and a lower weight row.
            const float number = __shfl_sync(0xffffffffu, column[i / 16], i / 4 % 4 * 8 + lane % 4 * 2 + i % 2);
            if (place == i / 2 % 2 * 8 + lane / 4) sums[i] = outlier.add(sums[i], number);
        }
    }
};
