// What CUDA's compiler gives to kernels without a header: words before declarations, indices, and functions of a thread or
// a warp. Must be included before any kernel.
#pragma once
#include <cmath>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>
#include <cuda_runtime.h>

#include "machine.h"

#undef __device__
#undef __global__
#undef __shared__
#undef __forceinline__
#undef __noinline__
#undef __launch_bounds__
#undef __maxnreg__
#undef __align__
#undef __grid_constant__
#define __device__
#define __global__
// A block is a thread of the host.
#define __shared__ thread_local
#define __forceinline__ inline
#define __noinline__
#define __launch_bounds__(...)
#define __maxnreg__(...)
#define __align__(bytes) __attribute__((aligned(bytes)))
#define __grid_constant__

#define threadIdx (emulator::thread().index)
#define blockIdx (emulator::block().index)
#define blockDim (emulator::Index{emulator::block().grid.threads, 1, 1})
#define gridDim (emulator::Index{emulator::block().grid.blocks, emulator::block().grid.each, 1})

inline void __syncthreads() {
    emulator::Block& block = emulator::block();
    block.synchronise(block.everyone, block.grid.threads, {"all threads of the block", 0}, [](void**) {});
}

inline void __threadfence() {}

namespace emulator {

inline void check_mask(unsigned mask) {
    if (mask != ~0u) refuse("speaks to some lanes of its warp only (%x), which the emulator does not know", mask);
}

// A value of lane `from`, or the own one where there is no such lane.
template <class T>
T exchange(const char* what, unsigned mask, T value, int from) {
    struct Part {
        T given;
        T found;
        int from;
    } part{value, value, from};
    check_mask(mask);
    together(what, part, [](Part** parts) {
        for (uint32_t i = 0; i < kWarp; ++i) {
            if (parts[i]->from >= 0 && parts[i]->from < int{kWarp}) parts[i]->found = parts[parts[i]->from]->given;
        }
    });
    return part.found;
}

}  // namespace emulator

inline void __syncwarp(unsigned mask = ~0u) { emulator::exchange("its warp", mask, 0, 0); }

template <class T>
T __shfl_sync(unsigned mask, T value, int from) {
    return emulator::exchange("a shuffle of its warp", mask, value, from & 31);
}

template <class T>
T __shfl_xor_sync(unsigned mask, T value, int bits) {
    return emulator::exchange("a shuffle by bits of its warp", mask, value, int(emulator::lane()) ^ bits);
}

template <class T>
T __shfl_up_sync(unsigned mask, T value, int by) {
    return emulator::exchange("a shuffle upwards of its warp", mask, value, int(emulator::lane()) - by);
}

template <class T>
T __shfl_down_sync(unsigned mask, T value, int by) {
    return emulator::exchange("a shuffle downwards of its warp", mask, value, int(emulator::lane()) + by);
}

inline unsigned __ballot_sync(unsigned mask, bool vote) {
    struct Part {
        bool vote;
        unsigned all;
    } part{vote, 0};
    emulator::check_mask(mask);
    emulator::together("a vote of its warp", part, [](Part** parts) {
        unsigned all = 0;
        for (uint32_t i = 0; i < emulator::kWarp; ++i) all |= unsigned{parts[i]->vote} << i;
        for (uint32_t i = 0; i < emulator::kWarp; ++i) parts[i]->all = all;
    });
    return part.all;
}

inline bool __any_sync(unsigned mask, bool vote) { return __ballot_sync(mask, vote) != 0; }
inline bool __all_sync(unsigned mask, bool vote) { return __ballot_sync(mask, vote) == mask; }

// The lanes that bring the same value.
template <class T>
unsigned __match_any_sync(unsigned mask, T value) {
    struct Part {
        T value;
        unsigned same;
    } part{value, 0};
    emulator::check_mask(mask);
    emulator::together("equals of its warp", part, [](Part** parts) {
        for (uint32_t i = 0; i < emulator::kWarp; ++i) {
            for (uint32_t j = 0; j < emulator::kWarp; ++j) parts[i]->same |= unsigned{parts[i]->value == parts[j]->value} << j;
        }
    });
    return part.same;
}

inline unsigned __reduce_add_sync(unsigned mask, unsigned value) {
    for (int bits = 1; bits < 32; bits *= 2) value += __shfl_xor_sync(mask, value, bits);
    return value;
}

inline unsigned __reduce_max_sync(unsigned mask, unsigned value) {
    for (int bits = 1; bits < 32; bits *= 2) {
        const unsigned other = __shfl_xor_sync(mask, value, bits);
        value = other > value ? other : value;
    }
    return value;
}

// Only one thread runs at a time.
template <class T>
T atomicAdd(T* to, std::type_identity_t<T> value) {
    const T before = *to;
    *to += value;
    return before;
}

template <class T>
T atomicMax(T* to, std::type_identity_t<T> value) {
    const T before = *to;
    if (value > before) *to = value;
    return before;
}

// A poll yields: another thread may change the word.
template <class T>
T atomicCAS(T* to, std::type_identity_t<T> expected, std::type_identity_t<T> value) {
    emulator::block().pass({"its turn at a word", 0});
    const T before = *to;
    if (before == expected) {
        *to = value;
        emulator::block().move();
    }
    return before;
}

template <class T>
T __ldcg(const T* from) {
    return *from;
}

template <class T>
T __ldg(const T* from) {
    return *from;
}

template <class T>
void __stcg(T* to, T value) {
    *to = value;
}

inline uint32_t __float_as_uint(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

inline float __uint_as_float(uint32_t bits) {
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

inline float rsqrtf(float x) { return static_cast<float>(1.0 / std::sqrt(static_cast<double>(x))); }
inline float __expf(float x) { return expf(x); }
inline float __fdividef(float x, float y) { return x / y; }
inline float __fmul_rn(float a, float b) { return a * b; }
inline float __fmaf_rn(float a, float b, float c) { return fmaf(a, b, c); }
// Four of the eight bytes of two words, lowest first.
inline uint32_t __byte_perm(uint32_t low, uint32_t high, uint32_t which) {
    const uint64_t bytes = uint64_t{high} << 32 | low;
    uint32_t chosen = 0;
    for (int i = 0; i < 4; ++i) chosen |= uint32_t(bytes >> (which >> 4 * i & 7) * 8 & 255) << 8 * i;
    return chosen;
}

inline int __popc(unsigned bits) { return __builtin_popcount(bits); }
inline int __clz(int bits) { return bits == 0 ? 32 : __builtin_clz(bits); }
inline int __ffs(int bits) { return __builtin_ffs(bits); }
inline uint32_t __umulhi(uint32_t a, uint32_t b) { return static_cast<uint64_t>(a) * b >> 32; }
inline uint32_t min(uint32_t a, uint32_t b) { return a < b ? a : b; }
inline uint32_t max(uint32_t a, uint32_t b) { return a > b ? a : b; }
inline unsigned long long min(unsigned long long a, unsigned long long b) { return a < b ? a : b; }
inline int min(int a, int b) { return a < b ? a : b; }
inline int max(int a, int b) { return a > b ? a : b; }
inline unsigned long long max(unsigned long long a, unsigned long long b) { return a > b ? a : b; }
