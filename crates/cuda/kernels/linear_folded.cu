// Products of folded weights with few rows and tens of them: out = x · weightᵀ + bias, every unit read once.
//
// Units are unfolded in registers, the first factor of the products: the numbers that are multiplied are those of bf16.
#include "common/fold.cuh"
#include "linear/head.cuh"
#include "linear/strays.cuh"
#include "linear/team.cuh"

struct FoldedMap {
    TensorMap x;
};

struct FoldedUnits {
    const uint8_t* weight;
    const uint8_t* heads;
    // A block of eight rows has as many as there is room for.
    const uint2* strays;
    // Units of a segment of inputs.
    uint64_t units;
    // The rows as they lie: strays are few.
    const bf16* x_rows;
    uint64_t x_stride;
    // Tiles of gates that have all outputs of a tile; those behind them have 64 less.
    uint64_t full_tiles;
};

struct FoldedParams : FoldedMap, FoldedUnits, LinearSurroundings {};

struct FoldedWeights {
    using Params = FoldedParams;
    static constexpr int kInputs = kUnitInputs;
    static constexpr uint32_t kGroupBytes = 64 / kUnitRows * (kUnitBytes + kHeadBytes);
    static constexpr int kThreadsToRelease = 32;
    // One warpgroup alone waits for each step of unfolding.
    static constexpr int kTurnsOfOne = 2;
    // Only the first factor of a product may come from registers, where weights are unfolded.
    static constexpr bool kMayBeSecond = false;

    static __device__ __forceinline__ void expect(const Params& p) {}

    template <int kGroups, bool kGated>
    static __device__ __forceinline__ Span span(const Params& p, uint32_t tile) {
        const uint32_t full = static_cast<uint32_t>(p.full_tiles);
        if (!kGated || kGroups == 1 || tile < full) return {tile * kGroups, kGroups};
        return {tile * (kGroups - 1) + full, kGroups - 1};
    }

    // Units of 64 outputs: of gates, as many again are their factors'.
    template <bool kGated>
    static constexpr uint32_t kEach = 64 / kUnitRows / (kGated ? 2 : 1);

    // Those of a block that are there.
    template <bool kGated>
    static __device__ __forceinline__ uint32_t units(const Params& p, const Span& span) {
        constexpr uint32_t kUnits = kEach<kGated>;
        return min(span.count * kUnits, static_cast<uint32_t>(kGated ? p.units / 2 : p.units) - span.first * kUnits);
    }

    template <int kGroups, bool kGated>
    static __device__ __forceinline__ uint32_t bytes(const Params& p, const Span& span) {
        return units<kGated>(p, span) * (kUnitBytes + kHeadBytes) * (kGated ? 2 : 1);
    }

    // Factors of gates lie behind all gates of the tile.
    template <int kGroups, bool kGated>
    static __device__ void fetch(const Params& p, uint8_t* to, Barrier* full, const Span& span, uint32_t stage) {
        constexpr uint32_t kAll = kGroups * kEach<kGated>;
        const uint32_t count = units<kGated>(p, span);
        uint8_t* heads = to + kGroups * 64 / kUnitRows * kUnitBytes;
        const ReadOnce once;
#pragma unroll
        for (uint32_t part = 0; part < (kGated ? 2 : 1); ++part) {
            const uint64_t first = stage * p.units + part * (p.units / 2) + span.first * kEach<kGated>;
            once.copy_bytes(to + part * kAll * kUnitBytes, p.weight + first * kUnitBytes, count * kUnitBytes, full);
            once.copy_bytes(heads + part * kAll * kHeadBytes, p.heads + first * kHeadBytes, count * kHeadBytes, full);
        }
    }

    // Strays of a warp's rows: sixteen lanes have those of the upper block, sixteen those of the lower one.
    struct Ahead {
        uint2 stray;
    };

    template <class Team>
    static __device__ __forceinline__ void prepare(const Team& team, Ahead& ahead) {
        constexpr uint32_t kUnits = kEach<Team::kGated>, kAll = Team::kOutputs / 64 * kUnits;
        const uint32_t lane = threadIdx.x % 32, lower = lane / kMostStrays;
        const uint64_t unit = team.span.first * kUnits + unit_of<Team>(team, lower) % kAll;
        const uint64_t block = unit + (Team::kGated ? lower * (team.p.units / 2) : 0);
        ahead.stray = __ldg(team.p.strays + block * kMostStrays + lane % kMostStrays);
    }

    // The upper or lower unit of a warp in a stage. Warps without outputs have others'; what they find is thrown away.
    template <class Team>
    static __device__ __forceinline__ uint32_t unit_of(const Team& team, uint32_t lower) {
        constexpr uint32_t kAll = Team::kOutputs / kUnitRows;
        const uint32_t warp = Team::worker() / 32, last = units<Team::kGated>(team.p, team.span) - 1;
        return Team::kGated ? min(warp, last) + lower * (kAll / 2) : min(warp * 2 + lower, last);
    }

    // Products of one half are on their way while the next half is unfolded.
    template <class Team>
    static __device__ __forceinline__ void multiply(const Team& team, Place& place, const Ahead& ahead, typename Team::Sums& sums) {
        constexpr uint32_t kAll = Team::kOutputs / kUnitRows;
        const uint32_t base = shared_address(team.ring), upper = unit_of(team, 0), lower = unit_of(team, 1);
        uint32_t a[2][kHalfSteps][4];
        const uint32_t first = team.begin + Team::turn();
        Strays<Team::kRows> strays(team.p.x_rows, team.p.x_stride, team.p.rows, ahead.stray, first, team.end, Team::kTurns);
        uint32_t before = 0;
#pragma unroll 1
        for (uint32_t stage = first; stage < team.end; stage += Team::kTurns, place.advance(Team::kTurns, team.stages)) {
            const uint8_t* units = team.ring + place.stage * Team::kBytes;
            const uint8_t* heads = units + kAll * kUnitBytes;
            const uint64_t x = matrix_along(base + place.stage * Team::kBytes + Team::kWeightBytes);
            team.barriers->full[place.stage].wait(place.parity);
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                FoldedHalf some;
                some.load(units + upper * kUnitBytes, heads + upper * kHeadBytes, half);
                some.unfold<false>(a[half]);
                some.load(units + lower * kUnitBytes, heads + lower * kHeadBytes, half);
                some.unfold<true>(a[half]);
                pin(sums);
                begin_products();
#pragma unroll
                for (uint32_t i = 0; i < kHalfSteps; ++i) {
                    const uint32_t bytes = half * Team::kRows * kSlice * 2 + i * 32;
                    multiply_held<Team::kRows>(sums, a[half][i], moved(x, bytes), stage != first || half != 0 || i != 0);
                }
                commit_products();
                // The half before is done: its registers are free, and its stage.
                wait_products<1>();
                if (Team::kTurns == 1 && half == 0 && stage != first) team.release(before);
            }
            before = place.stage;
            if constexpr (Team::kTurns > 1) {
                // The other warpgroup multiplies meanwhile.
                wait_products<0>();
                team.release(before);
            }
        }
        wait_products<0>();
        pin(sums);
        strays.add(sums);
    }
};

TEAM_KERNELS(FoldedWeights, 8, linear_folded, linear_folded_gated, linear_folded_onward)
TEAM_KERNELS(FoldedWeights, 16, linear_folded, linear_folded_gated, linear_folded_onward)
TEAM_KERNELS(FoldedWeights, 32, linear_folded, linear_folded_gated, linear_folded_onward)
TEAM_KERNELS(FoldedWeights, 64, linear_folded, linear_folded_gated, linear_folded_onward)

HEAD_KERNEL(FoldedWeights, 3, 8, linear_folded_largest)
HEAD_KERNEL(FoldedWeights, 3, 16, linear_folded_largest)
HEAD_KERNEL(FoldedWeights, 3, 32, linear_folded_largest)
HEAD_KERNEL(FoldedWeights, 3, 64, linear_folded_largest)
