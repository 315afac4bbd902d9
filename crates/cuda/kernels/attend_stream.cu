// Decode attention over keys and values that TMA can load.
//
// A grid of a fixed size takes equal shares of all chunks of the batch (`plan_attention`). New tokens may come as the QKV GEMM
// left them: queries and keys are then normalised and rotated here, and keys and values stored.
#include "attend/stream_consume.cuh"
#include "attend/stream_produce.cuh"
#include "common/memory.cuh"

template <typename Shape>
__device__ void attend_stream(const StreamParams& p) {
    extern __shared__ __align__(1024) uint8_t shared[];
    const Shape shape(shared);
    const uint32_t worker = p.worker_of(blockIdx.x), head = blockIdx.x - worker * p.attend.kv_heads;
    launch_dependent_grids();
    // Not the producer warp: it loads its plan meanwhile.
    if (threadIdx.x == 0) {
#pragma unroll 1
        for (int i = 0; i < 4; ++i) prefetch_tensormap(&p.cached[0][0] + i);
        // Of a block that may begin later, when memory answers others first.
        prefetch_l2(p.plans + p.worker_of((blockIdx.x + gridDim.x / 2) % gridDim.x));
#pragma unroll 1
        for (int i = 0; i < Shape::kBuffers; ++i) {
            shape.control->full[i].init(1);
            shape.control->empty[i].init(kWarps);
        }
        shape.control->shared_rows[0].done = shape.control->shared_rows[1].done = 0;
        publish_barriers();
    }
    const StreamStart start(p.plans[worker]);
    __syncthreads();
    if (threadIdx.x >= kComputing) {
        StreamProducer<Shape>(p, shape, head).run(start, worker);
        wait_on_dependent_grids();
    } else {
        StreamConsumer<Shape>(p, shape, head).run(start);
    }
}

#define ATTEND_STREAM(dim, columns, name, type, single)                                                       \
    extern "C" __global__ void __launch_bounds__(kThreads, (StreamShape<dim, columns, type, single>::kBlocks)) \
        attend_stream_##dim##_##columns##_##name(const __grid_constant__ StreamParams p) {                    \
        attend_stream<StreamShape<dim, columns, type, single>>(p);                                            \
    }

ATTEND_STREAM(64, 8, bf16, bf16, false)
ATTEND_STREAM(64, 16, bf16, bf16, false)
ATTEND_STREAM(128, 8, bf16, bf16, false)
ATTEND_STREAM(128, 16, bf16, bf16, false)
ATTEND_STREAM(256, 8, bf16, bf16, false)
ATTEND_STREAM(256, 16, bf16, bf16, false)
ATTEND_STREAM(128, 8, fp8, __nv_fp8_e4m3, false)
ATTEND_STREAM(128, 16, fp8, __nv_fp8_e4m3, false)
ATTEND_STREAM(256, 8, fp8, __nv_fp8_e4m3, false)
ATTEND_STREAM(256, 16, fp8, __nv_fp8_e4m3, false)
// Where there are no more blocks than SMs.
ATTEND_STREAM(128, 8, bf16_alone, bf16, true)
ATTEND_STREAM(128, 16, bf16_alone, bf16, true)
