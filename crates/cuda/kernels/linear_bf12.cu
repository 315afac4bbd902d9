// GEMM of bf12 weights with up to 64 rows: out = x · weightᵀ + bias, every unit read once.
//
// Units are decoded into registers as operand A; the MMAs are those of bf16.
#include "common/bf12.cuh"
#include "linear/argmax_head.cuh"
#include "linear/outliers.cuh"
#include "linear/cluster_gemm.cuh"

struct Bf12Map {
    TensorMap x;
};

struct Bf12Units {
    const uint8_t* weight;
    const uint8_t* headers;
    // A fixed number per block of eight rows.
    const uint2* outliers;
    // Units of a segment of inputs.
    uint64_t units;
    // The plain rows, for outliers.
    const bf16* x_rows;
    uint64_t x_stride;
    // Tiles of gates with all outputs; later ones have 64 less.
    uint64_t full_tiles;
};

struct Bf12Params : Bf12Map, Bf12Units, EpilogueParams {};

struct Bf12Weights {
    using Params = Bf12Params;
    static constexpr int kInputs = kUnitInputs;
    static constexpr uint32_t kGroupBytes = 64 / kUnitRows * (kUnitBytes + kHeaderBytes);
    static constexpr int kThreadsToRelease = 32;
    // A single warpgroup would wait for each decode step.
    static constexpr int kPingPongOfOne = 2;
    // Only operand A may come from registers, where weights are decoded.
    static constexpr bool kMayBeSecond = false;

    static __device__ __forceinline__ void expect(const Params& p) {}

    template <int kGroups, bool kGated>
    static __device__ __forceinline__ Span span(const Params& p, uint32_t tile) {
        const uint32_t full = static_cast<uint32_t>(p.full_tiles);
        if (!kGated || kGroups == 1 || tile < full) return {tile * kGroups, kGroups};
        return {tile * (kGroups - 1) + full, kGroups - 1};
    }

    // Units of 64 outputs; with gates, half of them are up rows.
    template <bool kGated>
    static constexpr uint32_t kEach = 64 / kUnitRows / (kGated ? 2 : 1);

    // Units of this block.
    template <bool kGated>
    static __device__ __forceinline__ uint32_t units(const Params& p, const Span& span) {
        constexpr uint32_t kUnits = kEach<kGated>;
        return min(span.count * kUnits, static_cast<uint32_t>(kGated ? p.units / 2 : p.units) - span.first * kUnits);
    }

    template <int kGroups, bool kGated>
    static __device__ __forceinline__ uint32_t bytes(const Params& p, const Span& span) {
        return units<kGated>(p, span) * (kUnitBytes + kHeaderBytes) * (kGated ? 2 : 1);
    }

    // Up rows lie after all gates of the tile.
    template <int kGroups, bool kGated>
    static __device__ void fetch(const Params& p, uint8_t* to, Barrier* full, const Span& span, uint32_t stage) {
        constexpr uint32_t kAll = kGroups * kEach<kGated>;
        const uint32_t count = units<kGated>(p, span);
        uint8_t* headers = to + kGroups * 64 / kUnitRows * kUnitBytes;
        const EvictFirst evict_first;
#pragma unroll
        for (uint32_t part = 0; part < (kGated ? 2 : 1); ++part) {
            const uint64_t first = stage * p.units + part * (p.units / 2) + span.first * kEach<kGated>;
            evict_first.bulk_load(to + part * kAll * kUnitBytes, p.weight + first * kUnitBytes, count * kUnitBytes, full);
            evict_first.bulk_load(headers + part * kAll * kHeaderBytes, p.headers + first * kHeaderBytes, count * kHeaderBytes, full);
        }
    }

    // Outliers of a warp's rows: sixteen lanes have those of the upper block, sixteen those of the lower one.
    struct Prefetched {
        uint2 outlier;
    };

    template <class Gemm>
    static __device__ __forceinline__ void prepare(const Gemm& gemm, Prefetched& prefetched) {
        constexpr uint32_t kUnits = kEach<Gemm::kGated>, kAll = Gemm::kOutputs / 64 * kUnits;
        const uint32_t lane = threadIdx.x % 32, lower = lane / kMaxOutliers;
        const uint64_t unit = gemm.span.first * kUnits + unit_of<Gemm>(gemm, lower) % kAll;
        const uint64_t block = unit + (Gemm::kGated ? lower * (gemm.p.units / 2) : 0);
        prefetched.outlier = __ldg(gemm.p.outliers + block * kMaxOutliers + lane % kMaxOutliers);
    }

    // The upper or lower unit of a warp. Warps without outputs take others'; their results are dropped.
    template <class Gemm>
    static __device__ __forceinline__ uint32_t unit_of(const Gemm& gemm, uint32_t lower) {
        constexpr uint32_t kAll = Gemm::kOutputs / kUnitRows;
        const uint32_t warp = Gemm::worker() / 32, last = units<Gemm::kGated>(gemm.p, gemm.span) - 1;
        return Gemm::kGated ? min(warp, last) + lower * (kAll / 2) : min(warp * 2 + lower, last);
    }

    // MMAs of one half run while the next half is decoded.
    template <class Gemm>
    static __device__ __forceinline__ void multiply(const Gemm& gemm, PipelineState& place, const Prefetched& prefetched, typename Gemm::Sums& sums) {
        constexpr uint32_t kAll = Gemm::kOutputs / kUnitRows;
        const uint32_t base = shared_address(gemm.ring), upper = unit_of(gemm, 0), lower = unit_of(gemm, 1);
        uint32_t a[2][kHalfSteps][4];
        const uint32_t first = gemm.begin + Gemm::ping_pong();
        Outliers<Gemm::kRows> outliers(gemm.p.x_rows, gemm.p.x_stride, gemm.p.rows, prefetched.outlier, first, gemm.end, Gemm::kPingPong);
        uint32_t before = 0;
#pragma unroll 1
        for (uint32_t stage = first; stage < gemm.end; stage += Gemm::kPingPong, place.advance(Gemm::kPingPong, gemm.stages)) {
            const uint8_t* units = gemm.ring + place.index * Gemm::kBytes;
            const uint8_t* headers = units + kAll * kUnitBytes;
            const uint64_t x = k_major_descriptor(base + place.index * Gemm::kBytes + Gemm::kWeightBytes);
            gemm.barriers->full[place.index].wait(place.parity);
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                Bf12Half some;
                some.load(units + upper * kUnitBytes, headers + upper * kHeaderBytes, half);
                some.decode<false>(a[half]);
                some.load(units + lower * kUnitBytes, headers + lower * kHeaderBytes, half);
                some.decode<true>(a[half]);
                warpgroup_fence_operand(sums);
                warpgroup_arrive();
#pragma unroll
                for (uint32_t i = 0; i < kHalfSteps; ++i) {
                    const uint32_t bytes = half * Gemm::kRows * kSlice * 2 + i * 32;
                    wgmma_rs<Gemm::kRows>(sums, a[half][i], advance_descriptor(x, bytes), stage != first || half != 0 || i != 0);
                }
                warpgroup_commit();
                // The previous half is done: its registers are free, and its stage.
                warpgroup_wait<1>();
                if (Gemm::kPingPong == 1 && half == 0 && stage != first) gemm.release(before);
            }
            before = place.index;
            if constexpr (Gemm::kPingPong > 1) {
                // The other ping-pong warpgroup multiplies meanwhile.
                warpgroup_wait<0>();
                gemm.release(before);
            }
        }
        warpgroup_wait<0>();
        warpgroup_fence_operand(sums);
        outliers.add(sums);
    }
};

CLUSTER_GEMM_KERNELS(Bf12Weights, 8, linear_bf12, linear_bf12_gated, linear_bf12_add_norm)
CLUSTER_GEMM_KERNELS(Bf12Weights, 16, linear_bf12, linear_bf12_gated, linear_bf12_add_norm)
CLUSTER_GEMM_KERNELS(Bf12Weights, 32, linear_bf12, linear_bf12_gated, linear_bf12_add_norm)
CLUSTER_GEMM_KERNELS(Bf12Weights, 64, linear_bf12, linear_bf12_gated, linear_bf12_add_norm)

ARGMAX_HEAD_KERNEL(Bf12Weights, 3, 8, linear_bf12_argmax)
ARGMAX_HEAD_KERNEL(Bf12Weights, 3, 16, linear_bf12_argmax)
ARGMAX_HEAD_KERNEL(Bf12Weights, 3, 32, linear_bf12_argmax)
ARGMAX_HEAD_KERNEL(Bf12Weights, 3, 64, linear_bf12_argmax)
