// GEMM of e4m3 weights with up to 64 rows: out = x · weightᵀ + bias, every code read once.
//
// Codes are widened to bf16 in registers as operand A; sums of inputs that share a scale are scaled before they are added, so
// nothing is rounded that the bf16 kernels would not round.
#include "common/float8.cuh"
#include "linear/cluster_gemm.cuh"

struct WeightScales {
    Scales scales;
};

struct Float8Params : LinearMaps, WeightScales, EpilogueParams {};

struct Float8Codes : TmaWeights {
    using Params = Float8Params;
    static constexpr int kInputs = kSegment;
    static constexpr int kThreadsToRelease = 32;
    // Only operand A may come from registers, where codes are widened.
    static constexpr bool kMayBeSecond = false;

    // The tensor map counts in pairs of codes. Gates and up rows alternate by eight.
    template <int kGroups, bool kGated>
    static __device__ void fetch(const Params& p, uint8_t* to, Barrier* full, const Span& span, uint32_t stage) {
        const EvictFirst evict_first;
        for (int i = 0; i < kGroups; ++i) {
            uint8_t* place = to + i * 64 * kRowBytes;
            const uint32_t first = (span.first + i) * 64;
            if constexpr (kGated) {
                evict_first.tma_load(place, &p.weight, full, stage * (kSegment / 2), 0, 0, first / 16);
            } else {
                evict_first.tma_load(place, &p.weight, full, stage * (kSegment / 2), first);
            }
        }
    }

    // The weight row of a thread's upper or lower output.
    template <class Gemm>
    static __device__ uint32_t weight_row(const Gemm& gemm, bool lower) {
        const uint32_t warp = threadIdx.x / 32, lane = threadIdx.x % 32, outputs = gemm.p.outputs;
        if constexpr (Gemm::kGated) {
            const uint32_t gate = gemm.span.first * 32 + warp * 8 + lane / 4;
            return min(lower ? outputs / 2 + gate : gate, outputs - 1);
        }
        return min(gemm.span.first * 64 + warp * 16 + lane / 4 + (lower ? 8 : 0), outputs - 1);
    }

    // Half of a segment's codes as the A fragments of four steps; rows have the 128-byte swizzle.
    static __device__ __forceinline__ void widen(const uint8_t* stage, uint32_t half, uint32_t (&a)[4][4]) {
        const uint32_t row = threadIdx.x / 32 * 16 + threadIdx.x % 32 / 4;
        const uint8_t* place = stage + row * kRowBytes + ((threadIdx.x % 4 * 2 + half) ^ (row % 8)) * 16;
        const uint4 upper = *reinterpret_cast<const uint4*>(place);
        const uint4 lower = *reinterpret_cast<const uint4*>(place + 8 * kRowBytes);
        const uint32_t up[4] = {upper.x, upper.y, upper.z, upper.w}, low[4] = {lower.x, lower.y, lower.z, lower.w};
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            widen_codes(up[i], a[i][0], a[i][2]);
            widen_codes(low[i], a[i][1], a[i][3]);
        }
    }

    // MMAs of one half run while the next half is widened.
    template <class Gemm>
    static __device__ __forceinline__ void multiply(const Gemm& gemm, PipelineState& place, const Prefetched& prefetched, typename Gemm::Sums& sums) {
        constexpr int kTokens = Gemm::kRows;
        const uint32_t base = shared_address(gemm.ring), each = gemm.p.scales.group_segments;
        const float* upper = gemm.p.scales.row(weight_row(gemm, false));
        const float* lower = gemm.p.scales.row(weight_row(gemm, true));
        typename Gemm::Sums part = {};
        uint32_t a[2][4][4];
        uint32_t before = 0;
#pragma unroll 1
        for (uint32_t stage = gemm.begin; stage < gemm.end;) {
            // Inputs that share a scale.
            const uint32_t group = stage / each, first = stage, last = min((group + 1) * each, gemm.end);
            const float scales[2] = {__ldg(upper + group), __ldg(lower + group)};
#pragma unroll 1
            for (; stage < last; ++stage, place.advance(gemm.stages)) {
                const uint8_t* codes = gemm.ring + place.index * Gemm::kBytes;
                const uint64_t x = k_major_descriptor(base + place.index * Gemm::kBytes + Gemm::kWeightBytes);
                gemm.barriers->full[place.index].wait(place.parity);
#pragma unroll
                for (int half = 0; half < 2; ++half) {
                    widen(codes, half, a[half]);
                    warpgroup_fence_operand(part);
                    warpgroup_arrive();
#pragma unroll
                    for (int i = 0; i < 4; ++i) {
                        const uint32_t bytes = half * kTokens * kSlice * 2 + i * 32;
                        wgmma_rs<kTokens>(part, a[half][i], advance_descriptor(x, bytes), stage != first || half != 0 || i != 0);
                    }
                    warpgroup_commit();
                    // The previous half is done: its registers are free, and its stage.
                    warpgroup_wait<1>();
                    if (half == 0 && stage != gemm.begin) gemm.release(before);
                }
                before = place.index;
            }
            warpgroup_wait<0>();
            warpgroup_fence_operand(part);
#pragma unroll
            for (int i = 0; i < kTokens / 2; ++i) sums[i] += scales[i / 2 % 2] * part[i];
        }
    }
};

CLUSTER_GEMM_KERNELS(Float8Codes, 8, linear_float8, linear_float8_gated, linear_float8_add_norm)
CLUSTER_GEMM_KERNELS(Float8Codes, 16, linear_float8, linear_float8_gated, linear_float8_add_norm)
CLUSTER_GEMM_KERNELS(Float8Codes, 32, linear_float8, linear_float8_gated, linear_float8_add_norm)
CLUSTER_GEMM_KERNELS(Float8Codes, 64, linear_float8, linear_float8_gated, linear_float8_add_norm)
