// e4m3 weights in device layout.
//
// Rows are padded to whole segments of 128 codes. In a segment the codes that one lane of an MMA needs are contiguous: lane q of
// four has eight words, word s with the columns 16 s + 2 q + {0, 8, 1, 9}, lowest byte first.
#pragma once
#include <cstdint>

#include "bf16.cuh"
#include "pair.cuh"

constexpr uint32_t kSegment = 128;
constexpr uint32_t kSegmentWords = kSegment / 4;
constexpr float kLargestFloat8 = 448.0f;

// The first column of a word of a segment; the others are 8, 1 and 9 further.
__device__ __forceinline__ uint32_t first_column(uint32_t word) { return word % 8 * 16 + word / 8 * 2; }

// Widens four codes to two bf16 pairs: those in the lowest byte of each half, and those in the highest.
//
// Shifted by four bits, a code has its exponent and mantissa where bf16 has them, with an exponent that is 120 too small.
__device__ __forceinline__ void widen_codes(uint32_t word, uint32_t& low, uint32_t& high) {
    const uint32_t first = (word << 8 & 0x80008000u) | (word << 4 & 0x07f007f0u);
    const uint32_t second = (word & 0x80008000u) | (word >> 4 & 0x07f007f0u);
    // Times 2¹²⁰, plus -0 so that zeros keep their signs.
    low = multiply_add_pairs(first, 0x7b807b80u, 0x80008000u);
    high = multiply_add_pairs(second, 0x7b807b80u, 0x80008000u);
}

__device__ __forceinline__ float2 as_floats(uint32_t pair) {
    return __bfloat1622float2(*reinterpret_cast<const __nv_bfloat162*>(&pair));
}

// Scales of a matrix: one per block of rows and group of columns.
struct Scales {
    const float* values;
    uint32_t block_rows;
    uint32_t groups;
    // Segments that share a scale.
    uint32_t group_segments;

    __device__ __forceinline__ const float* row(uint32_t row) const {
        return values + static_cast<size_t>(row / block_rows) * groups;
    }
};
