// Blocks of a cluster: they run at the same time and see each other's shared memory.
#pragma once
#include "copy.cuh"

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

// Copies pieces of sixteen bytes from here to another block, whose barrier then has so many bytes less to wait for. What is
// copied stays as it is until the other block has seen it.
__device__ __forceinline__ void copy_there(uint32_t to, const void* from, uint32_t bytes, uint32_t barrier) {
    asm volatile("cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(to),
                 "r"(shared_address(from)), "r"(bytes), "r"(barrier)
                 : "memory");
}
