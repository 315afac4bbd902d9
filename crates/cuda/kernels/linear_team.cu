// Products with tens of rows: out = x · weightᵀ + bias.
//
// Small kernels between products cost more than their work, so products do that work: rows of x may lack the factor of
// their norm, results may be gated, and the product that ends a layer adds to the residual.
#include "linear/team.cuh"

struct Bf16Weights : BoxedWeights {
    using Params = LinearParams;
    static constexpr int kInputs = kSlice;
    // One thread of a warpgroup says for all that a stage may be used again.
    static constexpr int kThreadsToRelease = 128;
    static constexpr bool kMayBeSecond = true;

    template <int kGroups, bool kGated>
    static __device__ void fetch(const Params& p, uint8_t* to, Barrier* full, const Span& span, uint32_t stage) {
        const ReadOnce once;
        if constexpr (kGated) {
            // Eight gates, their eight factors, and so on.
            once.copy_box(to, &p.weight, full, stage * kSlice, 0, 0, span.first * 4);
        } else {
            once.copy_box(to, &p.weight, full, stage * kSlice, span.first * 64);
        }
    }

    template <class Team>
    static __device__ __forceinline__ void multiply(const Team& team, Place& place, const Ahead& ahead, typename Team::Sums& sums) {
        const uint32_t base = shared_address(team.ring), mine = threadIdx.x / 128 * 64 * kRowBytes;
        uint32_t before = 0;
#pragma unroll 1
        for (uint32_t stage = team.begin; stage < team.end; ++stage, place.advance(team.stages)) {
            const uint64_t weights = matrix_along(base + place.stage * Team::kBytes + mine);
            const uint64_t x = matrix_along(base + place.stage * Team::kBytes + Team::kWeightBytes);
            team.barriers->full[place.stage].wait(place.parity);
            pin(sums);
            begin_products();
#pragma unroll
            for (int step = 0; step < kSlice / 16; ++step) {
                const uint64_t a = moved(Team::kRowsFirst ? x : weights, step * 32);
                const uint64_t b = moved(Team::kRowsFirst ? weights : x, step * 32);
                multiply_shared<Team::kRows>(sums, a, b, stage != team.begin || step != 0);
            }
            commit_products();
            // The stage before is done when at most this one is not.
            wait_products<1>();
            if (stage != team.begin) team.release(before);
            before = place.stage;
        }
        wait_products<0>();
        pin(sums);
    }
};

TEAM_KERNELS(Bf16Weights, 16, linear_stream, linear_gated, linear_onward)
TEAM_KERNELS(Bf16Weights, 32, linear_stream, linear_gated, linear_onward)
TEAM_KERNELS(Bf16Weights, 64, linear_stream, linear_gated, linear_onward)
TEAM_KERNELS(Bf16Weights, 128, linear_stream, linear_gated, linear_onward)
