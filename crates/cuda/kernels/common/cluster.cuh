// Blocks of a cluster: they run at the same time and see each other's shared memory.
#pragma once
#include <cstdint>

__device__ __forceinline__ uint32_t cluster_rank() {
    uint32_t rank;
    asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    return rank;
}

__device__ __forceinline__ uint32_t cluster_size() {
    uint32_t size;
    asm("mov.u32 %0, %%cluster_nctarank;" : "=r"(size));
    return size;
}

// All threads of all blocks that have not ended say that they have come so far; who waits sees the barriers that were
// published before.
__device__ __forceinline__ void greet_cluster() { asm volatile("barrier.cluster.arrive.relaxed;" ::: "memory"); }
__device__ __forceinline__ void wait_for_cluster() { asm volatile("barrier.cluster.wait.acquire;" ::: "memory"); }

// Where this place in shared memory lies in another block.
__device__ __forceinline__ uint32_t address_in(uint32_t rank, uint32_t address) {
    uint32_t there;
    asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(address), "r"(rank));
    return there;
}

__device__ __forceinline__ void store_there(uint32_t address, float value) {
    asm volatile("st.shared::cluster.f32 [%0], %1;" ::"r"(address), "f"(value) : "memory");
}

// An arrival at a barrier of another block, which sees what was written there before.
__device__ __forceinline__ void arrive_there(uint32_t address) {
    asm volatile("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0];" ::"r"(address) : "memory");
}

// Waits for arrivals from other blocks.
__device__ __forceinline__ void wait_for_arrivals(uint32_t address, uint32_t parity) {
    asm volatile(
        "{\n"
        ".reg .pred done;\n"
        "again: mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 done, [%0], %1;\n"
        "@done bra ready;\n"
        "bra again;\n"
        "ready:\n"
        "}\n" ::"r"(address),
        "r"(parity)
        : "memory");
}
