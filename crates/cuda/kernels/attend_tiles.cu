// Attention of sequences with many new tokens: prompts, whole or in chunks, over what they have in the cache already.
//
// One warp hands out tiles, two fetch, two warpgroups compute; blocks take tiles until none is left.
#include "attend/tiles_consume.cuh"
#include "attend/tiles_produce.cuh"
#include "common/registers.cuh"

template <int kDim>
__device__ void attend_tiles(const TilesParams& p) {
    using Shape = TileShape<kDim>;
    extern __shared__ __align__(1024) uint8_t shared[];
    const Shape shape(shared);
    let_successor_begin();
    if (threadIdx.x == 0) {
        shape.control->init();
        publish_barriers();
    }
    __syncthreads();
    if (threadIdx.x < 128) {
        give_up_registers<40>();
        const uint32_t warp = threadIdx.x / 32;
        // Homes come from the kernel before.
        if (p.widened) wait_for_predecessor();
        if (warp == 0) Schedule<kDim>::list(p, shape.control);
        wait_for_predecessor();
        if (warp == 0) {
            Schedule<kDim>(p, shape.control).run();
            // The last block to end sets the counters back.
            if (threadIdx.x == 0 && atomicAdd(p.taken + 1, 1u) + 1 == gridDim.x) {
                p.taken[0] = 0;
                p.taken[1] = 0;
            }
        } else if (warp == 1) {
            Producer<kDim>(p, shape).bring_keys();
        } else if (warp == 2) {
            Producer<kDim>(p, shape).bring_values();
        }
    } else {
        take_registers<232>();
        wait_for_predecessor();
        Consumer<kDim> consumer(p, shape, threadIdx.x / 128 - 1);
        consumer.run();
    }
}

#define ATTEND_TILES(dim)                                                                                            \
    extern "C" __global__ void __launch_bounds__(384, 1) attend_tiles_##dim(const __grid_constant__ TilesParams p) { \
        attend_tiles<dim>(p);                                                                                        \
    }

ATTEND_TILES(64)
ATTEND_TILES(128)
ATTEND_TILES(256)
