// Splits `total` units into equal shares; the first workers take the remainder.
#pragma once
#include <cstdint>

struct Shares {
    uint32_t each;
    uint32_t left;

    __device__ __forceinline__ Shares(uint32_t total, uint32_t workers) : each(total / workers), left(total % workers) {}

    __device__ __forceinline__ uint32_t begin(uint32_t worker) const {
        return worker * each + (worker < left ? worker : left);
    }

    // The worker whose share has a unit.
    __device__ __forceinline__ uint32_t owner(uint32_t unit) const {
        const uint32_t larger = left * (each + 1);
        return unit < larger ? unit / (each + 1) : left + (unit - larger) / each;
    }
};
