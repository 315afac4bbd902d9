// Accesses to device memory that the language has no words for.
#pragma once
#include <cstdint>

// Seen by other blocks some time later, whole, and in no order with other writes.
__device__ __forceinline__ void store_relaxed(uint64_t* to, uint64_t word) {
    asm volatile("st.relaxed.gpu.global.b64 [%0], %1;" ::"l"(to), "l"(word) : "memory");
}

// Two neighbouring words, each of them whole and in no order with the other.
__device__ __forceinline__ void store_relaxed(uint64_t* to, uint64_t first, uint64_t second) {
    asm volatile("st.relaxed.gpu.global.v2.b64 [%0], {%1, %2};" ::"l"(to), "l"(first), "l"(second) : "memory");
}

// The 128 bytes at this place are used soon, by whichever multiprocessor.
__device__ __forceinline__ void expect_line(const void* line) {
    asm volatile("prefetch.global.L2 [%0];" ::"l"(line) : "memory");
}

// Two neighbouring words as they are now, each of them whole.
__device__ __forceinline__ void load_relaxed(uint64_t (&words)[2], const uint64_t* from) {
    asm volatile("ld.relaxed.gpu.global.v2.b64 {%0, %1}, [%2];" : "=l"(words[0]), "=l"(words[1]) : "l"(from) : "memory");
}

// True while a lane of this warp, all of which ask, still looks for words: lanes that left alone would do what follows one
// after the other.
__device__ __forceinline__ bool any_looks(bool looks) { return __any_sync(0xffffffffu, looks); }
