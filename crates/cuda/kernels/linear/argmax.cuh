// Argmax of each row of a GEMM. A thread keeps the maximum of its own results across tiles; after the last tile lanes, then
// warps (shared memory), then blocks (atomicMax) reduce. A key is the value above the inverted index, so that the lowest
// index wins among equals.
#pragma once
#include "../common/ordered.cuh"
#include "params.cuh"

// Keys of at most `kRows` rows per warp, in shared memory.
template <int kRows, int kWarps>
struct BlockArgmax {
    unsigned long long keys[kWarps][kRows];

    // Reduces into device memory: one key per row, zero before the first block. Call after a barrier.
    __device__ __forceinline__ void update_global(const EpilogueParams& p) const {
        const uint32_t row = threadIdx.x;
        if (row >= kRows || row >= p.rows) return;
        unsigned long long largest = keys[0][row];
#pragma unroll
        for (int warp = 1; warp < kWarps; ++warp) largest = max(largest, keys[warp][row]);
        atomicMax(static_cast<unsigned long long*>(p.out) + row, largest);
    }
};

// Of one thread, where weights are operand A: of two outputs of a tile, eight apart, it has the results of two neighbouring
// rows in eight.
template <int kRows>
struct ThreadArgmax {
    static constexpr int kEach = kRows / 4;
    float values[kEach];
    uint32_t outputs[kEach];

    __device__ __forceinline__ ThreadArgmax() {
#pragma unroll
        for (int i = 0; i < kEach; ++i) {
            values[i] = -INFINITY;
            outputs[i] = 0;
        }
    }

    // Adds a tile's results. `first`: the first of the two outputs; `count`: all outputs. A NaN is never larger.
    __device__ __forceinline__ void take(const float (&sums)[kRows / 2], const float* factors, uint32_t first, uint32_t count) {
#pragma unroll
        for (int i = 0; i < kEach; ++i) {
            const float factor = factors ? factors[row(i)] : 1.0f;
#pragma unroll
            for (int which = 0; which < 2; ++which) {
                const float value = sums[i / 2 * 4 + which * 2 + i % 2] * factor;
                const bool is_larger = value > values[i] && first + which * 8 < count;
                values[i] = is_larger ? value : values[i];
                outputs[i] = is_larger ? first + which * 8 : outputs[i];
            }
        }
    }

    // Warp reduction: lanes with other outputs of the same rows halve the rows among them while there are several, then
    // compare, so that each row ends in one lane. Must be called by whole warps.
    __device__ __forceinline__ void reduce(unsigned long long (&keys)[kRows]) const {
        const uint32_t lane = threadIdx.x % 32;
        unsigned long long largest[kEach];
        uint32_t begin = 0;
        bool is_mine = true;
#pragma unroll
        for (int i = 0; i < kEach; ++i) {
            // Adding zero turns -0 into +0.
            largest[i] = place_key(ordered(values[i] + 0.0f), outputs[i]);
        }
        constexpr int kLeft = kEach > 8 ? kEach / 8 : 1;
        int held = kEach;
#pragma unroll
        for (int offset = 16; offset >= 4; offset /= 2) {
            const bool upper = lane & offset;
            if (held > 1) {
                held /= 2;
                begin += upper ? held : 0;
#pragma unroll
                for (int i = 0; i < kEach / 2; ++i) {
                    if (i >= held) break;
                    const unsigned long long sent = upper ? largest[i] : largest[i + held], kept = upper ? largest[i + held] : largest[i];
                    largest[i] = max(kept, __shfl_xor_sync(0xffffffffu, sent, offset));
                }
            } else {
                largest[0] = max(largest[0], __shfl_xor_sync(0xffffffffu, largest[0], offset));
                is_mine &= !upper;
            }
        }
#pragma unroll
        for (int i = 0; i < kLeft; ++i) {
            if (is_mine) keys[row(begin + i)] = largest[i];
        }
    }

private:
    static __device__ __forceinline__ uint32_t row(uint32_t i) { return i / 2 * 8 + threadIdx.x % 4 * 2 + i % 2; }
};
