// Thread block clusters.
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

// cluster_arrive / cluster_wait, as in CUTLASS: all threads that have not exited arrive; waiters see the barriers published
// before.
__device__ __forceinline__ void cluster_arrive() { asm volatile("barrier.cluster.arrive.relaxed;" ::: "memory"); }
__device__ __forceinline__ void cluster_wait() { asm volatile("barrier.cluster.wait.acquire;" ::: "memory"); }

// Maps a shared-memory address to another block of the cluster (mapa).
__device__ __forceinline__ uint32_t map_to_rank(uint32_t rank, uint32_t address) {
    uint32_t there;
    asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(address), "r"(rank));
    return there;
}

// Bulk copy of 16-byte vectors to another block's shared memory; completes on that block's barrier. The source must stay
// unchanged until then.
__device__ __forceinline__ void bulk_copy_to_rank(uint32_t to, const void* from, uint32_t bytes, uint32_t barrier) {
    asm volatile("cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(to),
                 "r"(shared_address(from)), "r"(bytes), "r"(barrier)
                 : "memory");
}
