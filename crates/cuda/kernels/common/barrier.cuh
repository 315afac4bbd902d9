// mbarriers in shared memory, and named barriers for some of a block's warps.
#pragma once
#include <cstdint>

#include "copy.cuh"

struct Barrier {
    uint64_t state;

    __device__ __forceinline__ void init(uint32_t arrivals) {
        asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(this)), "r"(arrivals) : "memory");
    }

    // One arrival, plus bytes that the phase then waits for.
    __device__ __forceinline__ void arrive_and_expect_tx(uint32_t bytes) {
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

// Makes initialised barriers visible to the async proxy; a block barrier must follow.
__device__ __forceinline__ void publish_barriers() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }

// Makes generic writes to shared memory visible to MMAs and copies that follow a barrier.
__device__ __forceinline__ void publish_shared() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

__device__ __forceinline__ void named_barrier_sync(uint32_t number, uint32_t threads) {
    asm volatile("bar.sync %0, %1;" ::"r"(number), "r"(threads) : "memory");
}

__device__ __forceinline__ void named_barrier_arrive(uint32_t number, uint32_t threads) {
    asm volatile("bar.arrive %0, %1;" ::"r"(number), "r"(threads) : "memory");
}
