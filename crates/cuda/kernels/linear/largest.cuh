// The largest result of each row of a tile and where it stands; tiles then agree in memory, in whatever order they come.
#pragma once
#include "../common/barrier.cuh"
#include "../common/ordered.cuh"
#include "params.cuh"

// Of at most `kRows` rows, in shared memory.
template <int kRows>
struct LargestOfTile {
    uint32_t numbers[kRows];
    uint32_t places[kRows];

    __device__ __forceinline__ void begin() {
        if (threadIdx.x >= kRows) return;
        numbers[threadIdx.x] = 0;
        places[threadIdx.x] = 0xffffffffu;
    }
};

// A thread's results where weights are the first factor: of two outputs, eight apart, those of two neighbouring rows in eight.
template <int kRows>
struct LargestResults {
    static constexpr int kEach = kRows / 4;
    // As numbers that compare; what is no number is less than all others, as is an output that is not there.
    uint32_t values[2][kEach];
    uint32_t output;
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

    __device__ __forceinline__ uint32_t row(uint32_t i) const { return i / 2 * 8 + lane % 4 * 2 + i % 2; }

    // Lanes that have other outputs of the same rows halve the rows among them, as long as there are some, and compare.
    __device__ __forceinline__ void show_numbers(LargestOfTile<kRows>& tile) const {
        uint32_t largest[kEach], begin = 0;
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
            }
        }
#pragma unroll
        for (int i = 0; i < kLeft; ++i) atomicMax(&tile.numbers[row(begin + i)], largest[i]);
    }

    // Whoever has it says where; the lowest place counts.
    __device__ __forceinline__ void show_places(LargestOfTile<kRows>& tile) const {
#pragma unroll
        for (int i = 0; i < kEach; ++i) {
            const uint32_t largest = tile.numbers[row(i)];
            if (values[0][i] == largest) {
                atomicMin(&tile.places[row(i)], output);
            } else if (values[1][i] == largest) {
                atomicMin(&tile.places[row(i)], output + 8);
            }
        }
    }
};

// Of all tiles, one a row; zero where no tile has come yet.
template <int kRows>
__device__ __forceinline__ void tell_largest(const LargestOfTile<kRows>& tile, const LinearSurroundings& p, uint32_t row) {
    if (row >= min(p.rows, static_cast<uint32_t>(kRows))) return;
    atomicMax(static_cast<unsigned long long*>(p.out) + row, place_key(tile.numbers[row], tile.places[row]));
}
