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

// All threads of all blocks that have not ended meet, and see what the others stored in their blocks before.
__device__ __forceinline__ void meet_cluster() {
    asm volatile("barrier.cluster.arrive.release;" ::: "memory");
    wait_for_cluster();
}

// Where this place in shared memory lies in another block.
__device__ __forceinline__ uint32_t address_in(uint32_t rank, uint32_t address) {
    uint32_t there;
    asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(address), "r"(rank));
    return there;
}

__device__ __forceinline__ void store_there(uint32_t address, float value) {
    asm volatile("st.shared::cluster.f32 [%0], %1;" ::"r"(address), "f"(value) : "memory");
}

// Two that lie side by side at a multiple of their size.
__device__ __forceinline__ void store_there(uint32_t address, float first, float second) {
    asm volatile("st.shared::cluster.v2.f32 [%0], {%1, %2};" ::"r"(address), "f"(first), "f"(second) : "memory");
}
