// LM head with argmax epilogue: persistent blocks load the next tile while one is finished; no row of logits is written.
#pragma once
#include "../common/registers.cuh"
#include "argmax.cuh"
#include "cluster_gemm.cuh"

// For weight formats whose tiles are multiplied by one warpgroup each, as operand A.
template <class Kind, int kGroups, int kTokens>
struct ArgmaxHead : ClusterGemm<Kind, kGroups, kTokens, Epilogue::kStore> {
    using Gemm = ClusterGemm<Kind, kGroups, kTokens, Epilogue::kStore>;
    using Gemm::barriers, Gemm::p, Gemm::span, Gemm::stages;
    static_assert(Gemm::kPingPong == 1 && !Gemm::kRowsFirst, "a thread has outputs of many rows");

    using Largest = BlockArgmax<kTokens, 4 * kGroups>;
    using Mine = ThreadArgmax<kTokens>;
    Largest* largest;
    uint32_t tiles;

    // Registers of computing threads, and of the others (setmaxnreg).
    static constexpr int kMany = 152, kFew = 56;
    static_assert(kMany * Gemm::kConsumers + kFew * 128 <= 65536, "a multiprocessor has no more");

    static_assert(sizeof(Largest) <= Gemm::kStages * Gemm::kBytes, "keys take the place of stages");

    __device__ ArgmaxHead(const typename Gemm::Params& params, uint8_t* shared)
        : Gemm(params, shared),
          largest(reinterpret_cast<Largest*>(shared)),
          tiles((params.outputs + Gemm::kOutputs - 1) / Gemm::kOutputs) {}

    __device__ void run() {
        Gemm::begin_run();
        if (threadIdx.x < Gemm::kConsumers) {
            warpgroup_reg_alloc<kMany>();
            consume_tiles();
            return;
        }
        warpgroup_reg_dealloc<kFew>();
        if (threadIdx.x < Gemm::kConsumers + 32) {
            produce_tiles();
        } else {
            Gemm::compute_norm_factors((threadIdx.x - Gemm::kConsumers) / 32 - 1);
        }
    }

private:
    __device__ __forceinline__ Span span_of(uint32_t tile) const { return Kind::template span<kGroups, false>(p, tile); }

    // Stages of this block's tiles, in order.
    struct Work {
        uint32_t tile;
        uint32_t stage = 0;

        __device__ __forceinline__ void advance(uint32_t all) {
            if (++stage < all) return;
            stage = 0;
            tile += gridDim.x;
        }
    };

    __device__ void produce_tiles() const {
        const bool leads = threadIdx.x % 32 == 0;
        const uint32_t mine = (tiles - blockIdx.x + gridDim.x - 1) / gridDim.x, count = mine * p.stages, early = min(count, stages);
        Work work{blockIdx.x};
        if (leads) {
#pragma unroll 1
            for (uint32_t i = 0; i < early; ++i, work.advance(p.stages)) Gemm::fetch_weights(i, span_of(work.tile), work.stage);
        }
        __syncwarp();
        wait_on_dependent_grids();
        if (!leads) return;
#pragma unroll 1
        for (uint32_t i = 0; i < early; ++i) Gemm::fetch_x(i, i % p.stages);
        PipelineState place;
#pragma unroll 1
        for (uint32_t i = early; i < count; ++i, place.advance(stages), work.advance(p.stages)) {
            barriers->empty[place.index].wait(place.parity);
            Gemm::fetch_weights(place.index, span_of(work.tile), work.stage);
            Gemm::fetch_x(place.index, work.stage);
        }
    }

    __device__ void consume_tiles() {
        typename Kind::Prefetched prefetched, next;
        Kind::prepare(*this, prefetched);
        wait_on_dependent_grids();
        PipelineState place;
        Mine mine;
#pragma unroll 1
        for (uint32_t tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
            span = span_of(min(tile + gridDim.x, tiles - 1));
            Kind::prepare(*this, next);
            span = span_of(tile);
            typename Gemm::Sums sums = {};
            Kind::multiply(*this, place, prefetched, sums);
            // The last stage too: what follows belongs to the next tile.
            Gemm::release((place.index == 0 ? stages : place.index) - 1);
            take(sums, mine);
            prefetched = next;
        }
        // All stages have been read.
        named_barrier_sync(1, Gemm::kConsumers);
        mine.reduce(largest->keys[threadIdx.x / 32]);
        named_barrier_sync(1, Gemm::kConsumers);
        largest->update_global(p);
    }

    __device__ __forceinline__ void take(const typename Gemm::Sums& sums, Mine& mine) const {
        if (p.squares) barriers->factors_ready.wait(0);
        const uint32_t first = span.first * 64 + threadIdx.x / 32 * 16 + threadIdx.x % 32 / 4;
        mine.take(sums, p.squares ? barriers->factors : nullptr, first, p.outputs);
    }
};

#define ARGMAX_HEAD_KERNEL(kind, groups, tokens, name)                                                                 \
    extern "C" __global__ void __launch_bounds__((ArgmaxHead<kind, groups, tokens>::Gemm::kThreads), 1)            \
        name##_##tokens(const __grid_constant__ kind::Params p) {                                               \
        extern __shared__ __align__(1024) uint8_t shared[];                                                     \
        ArgmaxHead<kind, groups, tokens>(p, shared).run();                                                          \
    }
