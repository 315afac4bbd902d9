// TMA loads of tiles that a host-made tensor map describes.
#pragma once
#include "barrier.cuh"

struct alignas(128) TensorMap {
    uint64_t opaque[16];
};

// Prefetches the descriptor.
__device__ __forceinline__ void prefetch_tensormap(const TensorMap* map) {
    asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory");
}

__device__ __forceinline__ void tma_load(void* to, const TensorMap* map, Barrier* done, int x, int y) {
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4}], [%2];" ::"r"(
                     shared_address(to)),
                 "l"(map), "r"(shared_address(done)), "r"(x), "r"(y)
                 : "memory");
}

__device__ __forceinline__ void tma_load(void* to, const TensorMap* map, Barrier* done, int x, int y, int z) {
    asm volatile(
        "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5}], [%2];" ::"r"(
            shared_address(to)),
        "l"(map), "r"(shared_address(done)), "r"(x), "r"(y), "r"(z)
        : "memory");
}

__device__ __forceinline__ void tma_load(void* to, const TensorMap* map, Barrier* done, int x, int y, int z, int w) {
    asm volatile(
        "cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5, %6}], [%2];" ::"r"(
            shared_address(to)),
        "l"(map), "r"(shared_address(done)), "r"(x), "r"(y), "r"(z), "r"(w)
        : "memory");
}

// L2 evict-first loads: what a step reads once must not displace what it reads again, code included.
struct EvictFirst {
    uint64_t policy;

    __device__ __forceinline__ EvictFirst() { asm("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy)); }

    // A bulk copy of contiguous bytes, a multiple of sixteen.
    __device__ __forceinline__ void bulk_load(void* to, const void* from, uint32_t bytes, Barrier* done) const {
        asm volatile(
            "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0], [%1], %2, [%3], %4;" ::"r"(
                shared_address(to)),
            "l"(from), "r"(bytes), "r"(shared_address(done)), "l"(policy)
            : "memory");
    }

    __device__ __forceinline__ void tma_load(void* to, const TensorMap* map, Barrier* done, int x, int y) const {
        asm volatile(
            "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0], [%1, {%3, %4}], "
            "[%2], %5;" ::"r"(shared_address(to)),
            "l"(map), "r"(shared_address(done)), "r"(x), "r"(y), "l"(policy)
            : "memory");
    }

    __device__ __forceinline__ void tma_load(void* to, const TensorMap* map, Barrier* done, int x, int y, int z) const {
        asm volatile(
            "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0], [%1, {%3, %4, "
            "%5}], [%2], %6;" ::"r"(shared_address(to)),
            "l"(map), "r"(shared_address(done)), "r"(x), "r"(y), "r"(z), "l"(policy)
            : "memory");
    }

    __device__ __forceinline__ void tma_load(void* to, const TensorMap* map, Barrier* done, int x, int y, int z, int w) const {
        asm volatile(
            "cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0], [%1, {%3, %4, "
            "%5, %6}], [%2], %7;" ::"r"(shared_address(to)),
            "l"(map), "r"(shared_address(done)), "r"(x), "r"(y), "r"(z), "r"(w), "l"(policy)
            : "memory");
    }

    __device__ __forceinline__ void tma_load(void* to, const TensorMap* map, Barrier* done, int x, int y, int z, int w,
                                             int v) const {
        asm volatile(
            "cp.async.bulk.tensor.5d.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0], [%1, {%3, %4, "
            "%5, %6, %7}], [%2], %8;" ::"r"(shared_address(to)),
            "l"(map), "r"(shared_address(done)), "r"(x), "r"(y), "r"(z), "r"(w), "r"(v), "l"(policy)
            : "memory");
    }
};
