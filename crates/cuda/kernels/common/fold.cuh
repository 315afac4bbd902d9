// Folded weights: bf16 in little more than twelve bits, and nothing is lost.
//
// The lower byte of a weight is kept as it is. Of the upper one, which has the sign and most of the exponent, weights have few
// different ones: a code of three bits says which of eight. A unit, eight rows by 128 inputs, has a table of seven that are
// neighbours, and each of its lanes has one of its own, for what is much smaller or larger. What is left, a weight in a
// million, is a stray: it unfolds to a stand-in, and products add what it is instead.
#pragma once
#include <cstdint>

constexpr uint32_t kUnitRows = 8;
constexpr uint32_t kUnitInputs = 128;
// Lane r · 4 + q has row r and the columns 16 s + 2 q + {0, 1, 8, 9} of every step s, as products take them: a word of
// lower bytes a step, by halves of the steps, and four bits a weight, also by halves.
constexpr uint32_t kHalfSteps = kUnitInputs / 32;
constexpr uint32_t kLowBytes = kUnitRows * kUnitInputs;
constexpr uint32_t kUnitBytes = kLowBytes / 2 * 3;
// The head of a unit lies apart, so that units begin at multiples of 128 bytes: its table, and the upper bytes that lanes have
// for themselves, whose code is the last one.
constexpr uint32_t kTableBytes = 8;
constexpr uint32_t kHeadBytes = kTableBytes + 32;
constexpr uint32_t kOwn = 7;

// A weight that no table has, of eight rows with all their inputs.
struct Stray {
    uint16_t column;
    // Of the eight, from one on; zero where there is no stray.
    uint16_t row;
    // Both bf16.
    uint16_t weight;
    uint16_t stand_in;
};
constexpr uint32_t kMostStrays = 16;

// The column of a unit that is the so manieth of a lane, four a step.
__device__ __forceinline__ uint32_t unit_column(uint32_t lane, uint32_t number) {
    return number / 4 * 16 + lane % 4 * 2 + number % 4 / 2 * 8 + number % 2;
}

// Two steps of a lane out of eight codes: in the lower half those of the first step. Their signs are the highest bits of the
// bytes, those of the second step four bits below.
__device__ __forceinline__ void unfold_steps(uint32_t codes, uint2 table, uint32_t low_first, uint32_t low_second,
                                             uint32_t (&first)[2], uint32_t (&second)[2]) {
    const uint32_t which = codes & 0x77777777u;
    const uint32_t high_first = __byte_perm(table.x, table.y, which) | (codes & 0x80808080u);
    const uint32_t high_second = __byte_perm(table.x, table.y, which >> 16) | (codes << 4 & 0x80808080u);
    first[0] = __byte_perm(low_first, high_first, 0x5140);
    first[1] = __byte_perm(low_first, high_first, 0x7362);
    second[0] = __byte_perm(low_second, high_second, 0x5140);
    second[1] = __byte_perm(low_second, high_second, 0x7362);
}

// What a lane has of half of the steps of a unit.
struct FoldedHalf {
    uint4 low;
    uint2 codes;
    uint2 table;

    __device__ __forceinline__ void load(const uint8_t* unit, const uint8_t* head, uint32_t half) {
        const uint32_t lane = threadIdx.x % 32;
        const uint2 seven = *reinterpret_cast<const uint2*>(head);
        low = *reinterpret_cast<const uint4*>(unit + half * (kLowBytes / 2) + lane * 16);
        codes = *reinterpret_cast<const uint2*>(unit + kLowBytes + half * (kLowBytes / 4) + lane * 8);
        table = make_uint2(seven.x, __byte_perm(seven.y, head[kTableBytes + lane], 0x4210));
    }

    // As what they are to a product: rows of `a` are steps, of which the unit has every other word.
    template <bool kLower>
    __device__ __forceinline__ void unfold(uint32_t (&a)[kHalfSteps][4]) const {
        const uint32_t lows[4] = {low.x, low.y, low.z, low.w}, both[2] = {codes.x, codes.y};
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            uint32_t first[2], second[2];
            unfold_steps(both[i], table, lows[i * 2], lows[i * 2 + 1], first, second);
            a[i * 2][kLower] = first[0], a[i * 2][2 + kLower] = first[1];
            a[i * 2 + 1][kLower] = second[0], a[i * 2 + 1][2 + kLower] = second[1];
        }
    }
};
