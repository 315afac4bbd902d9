// Attention of sequences with many new tokens: prompts, whole or in chunks, over what they have in the cache already.
//
// One warp fetches, two warpgroups compute; blocks take tiles until none is left.
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
    wait_for_predecessor();
    __syncthreads();
    if (threadIdx.x < 128) {
        give_up_registers<40>();
        if (threadIdx.x < 32) {
            Schedule<kDim>::list(p, shape.control);
            Producer<kDim> producer(p, shape);
            producer.run();
            // The last block to end sets the counters back.
            if (threadIdx.x == 0 && atomicAdd(p.taken + 1, 1u) + 1 == gridDim.x) {
                p.taken[0] = 0;
                p.taken[1] = 0;
            }
        }
    } else {
        take_registers<232>();
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
