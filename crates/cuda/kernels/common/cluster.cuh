// Blocks of a cluster: they run at the same time and see each other's shared memory.
#pragma once
#include "barrier.cuh"
#include "tma.cuh"

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

// All threads of all blocks that have not ended; what was written before is seen after.
__device__ __forceinline__ void meet_cluster() {
    asm volatile("barrier.cluster.arrive.release;\nbarrier.cluster.wait.acquire;" ::: "memory");
}

// Where this place in shared memory lies in another block.
__device__ __forceinline__ uint32_t address_in(uint32_t rank, uint32_t address) {
    uint32_t there;
    asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(address), "r"(rank));
    return there;
}

__device__ __forceinline__ float4 load_there(uint32_t address) {
    float4 found;
    asm volatile("ld.shared::cluster.v4.f32 {%0, %1, %2, %3}, [%4];"
                 : "=f"(found.x), "=f"(found.y), "=f"(found.z), "=f"(found.w)
                 : "r"(address)
                 : "memory");
    return found;
}

// One arrival at the barrier that lies there in another block.
__device__ __forceinline__ void arrive_in(uint32_t rank, Barrier* barrier) {
    const uint32_t there = address_in(rank, shared_address(barrier));
    asm volatile("mbarrier.arrive.shared::cluster.b64 _, [%0];" ::"r"(there) : "memory");
}

// As `copy_box`, to the same place of every block in `ranks`; each block's own barrier counts the bytes.
__device__ __forceinline__ void copy_box_to(uint32_t ranks, void* to, const TensorMap* map, Barrier* done, int x, int y) {
    asm volatile(
        "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1, {%3, %4}], "
        "[%2], %5;" ::"r"(shared_address(to)),
        "l"(map), "r"(shared_address(done)), "r"(x), "r"(y), "h"(static_cast<uint16_t>(ranks))
        : "memory");
}
