// Tokens of a step: as they were staged, or what a row drew last.
#pragma once
#include <cstdint>

struct ResolveParams {
    const uint32_t* staged;
    const uint32_t* last;
    uint32_t* out;
    uint32_t tokens;

    __device__ __forceinline__ uint32_t token(uint32_t number) const {
        const uint32_t word = staged[number];
        return word >> 31 ? last[word & 0x7fffffffu] : word;
    }
};
