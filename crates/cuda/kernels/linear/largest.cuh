// The largest result of each row and where it stands. Warps of a block agree in shared memory, and blocks in device memory, in
// whatever order they come: a key has the number above and its place below, turned so that the lowest counts among equals.
#pragma once
#include "../common/ordered.cuh"
#include "params.cuh"

// Of at most `kRows` rows, in shared memory.
template <int kRows, int kWarps>
struct LargestOfBlock {
    unsigned long long keys[kRows];
    // Of each warp so far: lanes that have less need not look for a key.
    uint32_t numbers[kWarps][kRows];

    __device__ __forceinline__ void begin() {
        if (threadIdx.x < kRows) keys[threadIdx.x] = 0;
#pragma unroll 1
        for (uint32_t i = threadIdx.x; i < kWarps * kRows; i += blockDim.x) numbers[i / kRows][i % kRows] = 0;
    }

    // Of all blocks, one a row; zero where none has come yet. When all warps of this one have met.
    __device__ __forceinline__ void tell(const LinearSurroundings& p) const {
        const uint32_t row = threadIdx.x;
        if (row < kRows && row < p.rows) atomicMax(static_cast<unsigned long long*>(p.out) + row, keys[row]);
    }
};

// A thread's results where weights are the first factor: of two outputs, eight apart, those of two neighbouring rows in eight.
template <int kRows>
struct LargestResults {
    static constexpr int kEach = kRows / 4;
    // As numbers that compare; what is no number is less than all others, as is an output that is not there.
    uint32_t values[2][kEach];
    const uint32_t output;
    const uint32_t lane = threadIdx.x % 32;

    __device__ __forceinline__ LargestResults(const float (&sums)[kRows / 2], const float* factors, uint32_t first, uint32_t outputs)
        : output(first) {
#pragma unroll
        for (int i = 0; i < kEach; ++i) {
            const float factor = factors ? factors[row(i)] : 1.0f;
#pragma unroll
            for (int which = 0; which < 2; ++which) {
                // Adding zero makes zeros alike.
                const float value = __fmaf_rn(sums[i / 2 * 4 + which * 2 + i % 2], factor, 0.0f);
                values[which][i] = ordered(output + which * 8 < outputs ? fmaxf(value, -INFINITY) : -INFINITY);
            }
        }
    }

    // Must be called by whole warps; others need not be there.
    template <class Block>
    __device__ __forceinline__ void show(Block& block) const {
        uint32_t(&numbers)[kRows] = block.numbers[threadIdx.x / 32];
        show_numbers(numbers);
        __syncwarp();
#pragma unroll
        for (int i = 0; i < kEach; ++i) {
            const uint32_t largest = numbers[row(i)];
            const bool is_first = values[0][i] == largest;
            if (is_first || values[1][i] == largest) {
                atomicMax(&block.keys[row(i)], place_key(largest, is_first ? output : output + 8));
            }
        }
        // Before the next tile's are shown.
        __syncwarp();
    }

private:
    __device__ __forceinline__ uint32_t row(uint32_t i) const { return i / 2 * 8 + lane % 4 * 2 + i % 2; }

    // Lanes that have other outputs of the same rows halve the rows among them, as long as there are some, and compare. Each row
    // is one lane's in the end.
    __device__ __forceinline__ void show_numbers(uint32_t (&numbers)[kRows]) const {
        uint32_t largest[kEach], begin = 0;
        bool is_mine = true;
#pragma unroll
        for (int i = 0; i < kEach; ++i) largest[i] = max(values[0][i], values[1][i]);
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
                    const uint32_t sent = upper ? largest[i] : largest[i + held], kept = upper ? largest[i + held] : largest[i];
                    largest[i] = max(kept, __shfl_xor_sync(0xffffffffu, sent, offset));
                }
            } else {
                largest[0] = max(largest[0], __shfl_xor_sync(0xffffffffu, largest[0], offset));
                is_mine &= !upper;
            }
        }
#pragma unroll
        for (int i = 0; i < kLeft; ++i) {
            uint32_t& number = numbers[row(begin + i)];
            if (is_mine) number = max(number, largest[i]);
        }
    }
};
