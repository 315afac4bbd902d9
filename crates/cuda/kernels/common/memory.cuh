// Memory accesses that C++ cannot express.
#pragma once
#include <cstdint>

// A relaxed store: each word is whole, unordered with other writes.
__device__ __forceinline__ void store_relaxed(uint64_t* to, uint64_t word) {
    asm volatile("st.relaxed.gpu.global.b64 [%0], %1;" ::"l"(to), "l"(word) : "memory");
}

// Two neighbouring words, each of them whole, unordered with each other.
__device__ __forceinline__ void store_relaxed(uint64_t* to, uint64_t first, uint64_t second) {
    asm volatile("st.relaxed.gpu.global.v2.b64 [%0], {%1, %2};" ::"l"(to), "l"(first), "l"(second) : "memory");
}

// Prefetches a 128-byte line to L2.
__device__ __forceinline__ void prefetch_l2(const void* line) {
    asm volatile("prefetch.global.L2 [%0];" ::"l"(line) : "memory");
}

// A relaxed load of two neighbouring words, each of them whole.
__device__ __forceinline__ void load_relaxed(uint64_t (&words)[2], const uint64_t* from) {
    asm volatile("ld.relaxed.gpu.global.v2.b64 {%0, %1}, [%2];" : "=l"(words[0]), "=l"(words[1]) : "l"(from) : "memory");
}

// True while any lane of the warp waits; all lanes must ask. It keeps polling lanes converged: lanes that left alone would
// run what follows one after the other.
__device__ __forceinline__ bool any_lane(bool looks) { return __any_sync(0xffffffffu, looks); }
