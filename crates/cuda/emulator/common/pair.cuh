// Two bf16 in one register, as numbers and back.
#pragma once
#include "builtins.h"

inline uint32_t multiply_add_pairs(uint32_t a, uint32_t b, uint32_t c) {
    uint32_t sums = 0;
    for (int half = 0; half < 32; half += 16) {
        const auto number = [half](uint32_t pair) { return __uint_as_float(pair >> half << 16); };
        // The product is exact in a double, and so small a sum nearly always is.
        const __nv_bfloat16 sum = __double2bfloat16(static_cast<double>(number(a)) * number(b) + number(c));
        uint16_t bits;
        memcpy(&bits, &sum, sizeof bits);
        sums |= static_cast<uint32_t>(bits) << half;
    }
    return sums;
}
