// Barriers in shared memory that copies complete, and numbered barriers for some of a block's warps.
#pragma once
#include <cstdint>

#include "copy.cuh"

struct Barrier {
    uint64_t state;

    __device__ __forceinline__ void init(uint32_t arrivals) {
        asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(this)), "r"(arrivals) : "memory");
    }

    // One arrival, after which so many bytes are still to come.
    __device__ __forceinline__ void expect(uint32_t bytes) {
        asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(this)), "r"(bytes)
                     : "memory");
    }

    __device__ __forceinline__ void arrive() {
        asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(this)) : "memory");
    }

    // Waits for the end of the phase of this parity.
    __device__ __forceinline__ void wait(uint32_t parity) {
        asm volatile(
            "{\n"
            ".reg .pred done;\n"
            "again: mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
            "@done bra ready;\n"
            "bra again;\n"
            "ready:\n"
            "}\n" ::"r"(shared_address(this)),
            "r"(parity)
            : "memory");
    }
};

// Makes initialised barriers known to the copy engine; a block barrier must follow.
__device__ __forceinline__ void publish_barriers() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }

// Makes ordinary writes to shared memory visible to products and copies that follow a barrier.
__device__ __forceinline__ void publish_shared() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

__device__ __forceinline__ void meet(uint32_t number, uint32_t threads) {
    asm volatile("bar.sync %0, %1;" ::"r"(number), "r"(threads) : "memory");
}

__device__ __forceinline__ void announce(uint32_t number, uint32_t threads) {
    asm volatile("bar.arrive %0, %1;" ::"r"(number), "r"(threads) : "memory");
}
