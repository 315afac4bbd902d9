// Floats as unsigned integers of the same order.
#pragma once
#include <cstdint>

__device__ __forceinline__ uint32_t ordered(float value) {
    const uint32_t bits = __float_as_uint(value);
    return bits & 0x80000000u ? ~bits : bits | 0x80000000u;
}

// Inverse of `ordered`.
__device__ __forceinline__ float unordered(uint32_t key) {
    return __uint_as_float(key & 0x80000000u ? key & 0x7fffffffu : ~key);
}

// A sortable key of a number and its index: the larger the number, then the lower the index, the larger the key. Never zero.
__device__ __forceinline__ unsigned long long place_key(uint32_t number, uint32_t place) {
    return static_cast<unsigned long long>(number) << 32 | (0xffffffffu - place);
}
__device__ __forceinline__ uint32_t key_number(unsigned long long key) { return static_cast<uint32_t>(key >> 32); }
__device__ __forceinline__ uint32_t key_place(unsigned long long key) { return 0xffffffffu - static_cast<uint32_t>(key); }
