// bf12 weights: bf16, losslessly encoded in little more than twelve bits.
//
// The lower byte of a weight is stored as it is. The upper byte (sign and most of the exponent) has few different values: a
// 3-bit code picks one of eight. A unit, eight rows by 128 inputs, has a table of seven consecutive values; the eighth code is
// the lane's own value, for what is much smaller or larger. The rest, about one weight in a million, are outliers: they decode
// to a substitute, and GEMMs add the difference.
#pragma once
#include <cstdint>

constexpr uint32_t kUnitRows = 8;
constexpr uint32_t kUnitInputs = 128;
// Lane r · 4 + q has row r and the columns 16 s + 2 q + {0, 1, 8, 9} of every step s, the MMA fragment order: a word of
// lower bytes per step, by halves of the steps, and four bits per weight, also by halves.
constexpr uint32_t kHalfSteps = kUnitInputs / 32;
constexpr uint32_t kLowBytes = kUnitRows * kUnitInputs;
constexpr uint32_t kUnitBytes = kLowBytes / 2 * 3;
// A unit's header lies apart, so that units are 128-byte aligned: its table, and each lane's own upper byte (the last code).
constexpr uint32_t kTableBytes = 8;
constexpr uint32_t kHeaderBytes = kTableBytes + 32;
constexpr uint32_t kLaneCode = 7;

// A weight that no table covers, in a block of eight rows with all their inputs.
struct Outlier {
    uint16_t column;
    // Row in the block plus one; zero: no outlier.
    uint16_t row;
    // Both bf16.
    uint16_t weight;
    uint16_t substitute;
};
constexpr uint32_t kMaxOutliers = 16;

// The column of a lane's n-th weight of a unit, four a step.
__device__ __forceinline__ uint32_t unit_column(uint32_t lane, uint32_t number) {
    return number / 4 * 16 + lane % 4 * 2 + number % 4 / 2 * 8 + number % 2;
}

// Decodes two steps of a lane from eight codes, the first step's in the lower half. Signs are the top bits of the bytes,
// those of the second step four bits lower.
__device__ __forceinline__ void decode_steps(uint32_t codes, uint2 table, uint32_t low_first, uint32_t low_second,
                                             uint32_t (&first)[2], uint32_t (&second)[2]) {
    const uint32_t which = codes & 0x77777777u;
    const uint32_t high_first = __byte_perm(table.x, table.y, which) | (codes & 0x80808080u);
    const uint32_t high_second = __byte_perm(table.x, table.y, which >> 16) | (codes << 4 & 0x80808080u);
    first[0] = __byte_perm(low_first, high_first, 0x5140);
    first[1] = __byte_perm(low_first, high_first, 0x7362);
    second[0] = __byte_perm(low_second, high_second, 0x5140);
    second[1] = __byte_perm(low_second, high_second, 0x7362);
}

// A lane's share of half of the steps of a unit.
struct Bf12Half {
    uint4 low;
    uint2 codes;
    uint2 table;

    __device__ __forceinline__ void load(const uint8_t* unit, const uint8_t* header, uint32_t half) {
        const uint32_t lane = threadIdx.x % 32;
        const uint2 seven = *reinterpret_cast<const uint2*>(header);
        low = *reinterpret_cast<const uint4*>(unit + half * (kLowBytes / 2) + lane * 16);
        codes = *reinterpret_cast<const uint2*>(unit + kLowBytes + half * (kLowBytes / 4) + lane * 8);
        table = make_uint2(seven.x, __byte_perm(seven.y, header[kTableBytes + lane], 0x4210));
    }

    // As A fragments: row i of `a` is step i; the unit fills every other word.
    template <bool kLower>
    __device__ __forceinline__ void decode(uint32_t (&a)[kHalfSteps][4]) const {
        const uint32_t lows[4] = {low.x, low.y, low.z, low.w}, both[2] = {codes.x, codes.y};
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            uint32_t first[2], second[2];
            decode_steps(both[i], table, lows[i * 2], lows[i * 2 + 1], first, second);
            a[i * 2][kLower] = first[0], a[i * 2][2 + kLower] = first[1];
            a[i * 2 + 1][kLower] = second[0], a[i * 2 + 1][2 + kLower] = second[1];
        }
    }
};
