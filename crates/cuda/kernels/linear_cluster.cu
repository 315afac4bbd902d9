// GEMM of tens of rows: out = x · weightᵀ + bias.
//
// Small kernels between GEMMs cost more than their work, so it is fused: the deferred RMS scale of x, the gated activation, and
// the residual add with the next norm's weight.
#include "linear/cluster_gemm.cuh"

struct Bf16Weights : TmaWeights {
    using Params = LinearParams;
    static constexpr int kInputs = kSlice;
    // One thread of a warpgroup releases a stage for all.
    static constexpr int kThreadsToRelease = 128;
    static constexpr bool kMayBeSecond = true;

    template <int kGroups, bool kGated>
    static __device__ void fetch(const Params& p, uint8_t* to, Barrier* full, const Span& span, uint32_t stage) {
        const EvictFirst evict_first;
        if constexpr (kGated) {
            // Eight gates, their eight up rows, and so on.
            evict_first.tma_load(to, &p.weight, full, stage * kSlice, 0, 0, span.first * 4);
        } else {
            evict_first.tma_load(to, &p.weight, full, stage * kSlice, span.first * 64);
        }
    }

    template <class Gemm>
    static __device__ __forceinline__ void multiply(const Gemm& gemm, PipelineState& place, const Prefetched& prefetched, typename Gemm::Sums& sums) {
        const uint32_t base = shared_address(gemm.ring), mine = threadIdx.x / 128 * 64 * kRowBytes;
        uint32_t before = 0;
#pragma unroll 1
        for (uint32_t stage = gemm.begin; stage < gemm.end; ++stage, place.advance(gemm.stages)) {
            const uint64_t weights = k_major_descriptor(base + place.index * Gemm::kBytes + mine);
            const uint64_t x = k_major_descriptor(base + place.index * Gemm::kBytes + Gemm::kWeightBytes);
            gemm.barriers->full[place.index].wait(place.parity);
            warpgroup_fence_operand(sums);
            warpgroup_arrive();
#pragma unroll
            for (int step = 0; step < kSlice / 16; ++step) {
                const uint64_t a = advance_descriptor(Gemm::kRowsFirst ? x : weights, step * 32);
                const uint64_t b = advance_descriptor(Gemm::kRowsFirst ? weights : x, step * 32);
                wgmma_ss<Gemm::kRows>(sums, a, b, stage != gemm.begin || step != 0);
            }
            warpgroup_commit();
            // At most this stage's MMAs are in flight: the previous stage is done.
            warpgroup_wait<1>();
            if (stage != gemm.begin) gemm.release(before);
            before = place.index;
        }
        warpgroup_wait<0>();
        warpgroup_fence_operand(sums);
    }
};

CLUSTER_GEMM_KERNELS(Bf16Weights, 16, linear_stream, linear_gated, linear_add_norm)
CLUSTER_GEMM_KERNELS(Bf16Weights, 32, linear_stream, linear_gated, linear_add_norm)
CLUSTER_GEMM_KERNELS(Bf16Weights, 64, linear_stream, linear_gated, linear_add_norm)
CLUSTER_GEMM_KERNELS(Bf16Weights, 128, linear_stream, linear_gated, linear_add_norm)
