// Prefill attention: sequences with many new tokens, whole prompts or chunks, over what the cache has.
//
// Warp-specialised and persistent: one warp schedules tiles, two load, two warpgroups compute, until no tile is left.
#include "attend/tiles_consume.cuh"
#include "attend/tiles_produce.cuh"
#include "common/registers.cuh"

template <int kDim>
__device__ void attend_tiles(const TilesParams& p) {
    using Shape = TileShape<kDim>;
    extern __shared__ __align__(1024) uint8_t shared[];
    const Shape shape(shared);
    launch_dependent_grids();
    if (threadIdx.x == 0) {
        shape.control->init();
        publish_barriers();
    }
    __syncthreads();
    if (threadIdx.x < 128) {
        warpgroup_reg_dealloc<40>();
        const uint32_t warp = threadIdx.x / 32;
        // The previous kernel writes the page offsets.
        if (p.widened) wait_on_dependent_grids();
        if (warp == 0) Schedule<kDim>::list(p, shape.control);
        wait_on_dependent_grids();
        if (warp == 0) {
            Schedule<kDim>(p, shape.control).run();
            // The last block to end resets the counters.
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
        warpgroup_reg_alloc<232>();
        wait_on_dependent_grids();
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
