// Products of few rows with eight-bit floats: out = x · weightᵀ + bias, every code read once.
//
// Codes become bf16 in registers, the first factor of the products; sums of inputs that share a scale are scaled before they
// are added: nothing is rounded that the bf16 kernels would not round.
#include "common/float8.cuh"
#include "linear/team.cuh"

struct WeightScales {
    Scales scales;
};

struct Float8Params : LinearMaps, WeightScales, LinearSurroundings {};

struct Float8Codes : BoxedWeights {
    using Params = Float8Params;
    static constexpr int kInputs = kSegment;
    static constexpr int kThreadsToRelease = 32;
    // Only the first factor of a product may come from registers, where codes are widened.
    static constexpr bool kMayBeSecond = false;

    // The map counts in pairs of codes. Gates and their factors come eight rows of each in turn.
    template <int kGroups, bool kGated>
    static __device__ void fetch(const Params& p, uint8_t* to, Barrier* full, const Span& span, uint32_t stage) {
        const ReadOnce once;
        for (int i = 0; i < kGroups; ++i) {
            uint8_t* place = to + i * 64 * kRowBytes;
            const uint32_t first = (span.first + i) * 64;
            if constexpr (kGated) {
                once.copy_box(place, &p.weight, full, stage * (kSegment / 2), 0, 0, first / 16);
            } else {
                once.copy_box(place, &p.weight, full, stage * (kSegment / 2), first);
            }
        }
    }

    // The row of the weight that the sums of a thread's upper, or lower, output belong to.
    template <class Team>
    static __device__ uint32_t weight_row(const Team& team, bool lower) {
        const uint32_t warp = threadIdx.x / 32, lane = threadIdx.x % 32, outputs = team.p.outputs;
        if constexpr (Team::kEnds == Ending::kGated) {
            const uint32_t gate = team.span.first * 32 + warp * 8 + lane / 4;
            return min(lower ? outputs / 2 + gate : gate, outputs - 1);
        }
        return min(team.span.first * 64 + warp * 16 + lane / 4 + (lower ? 8 : 0), outputs - 1);
    }

    // Half of the codes of a segment as the fragments of four steps; rows are turned by 128-byte swizzling.
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

    // Products of one half are on their way while the next half is widened.
    template <class Team>
    static __device__ __forceinline__ void multiply(const Team& team, Place& place, const Ahead& ahead, typename Team::Sums& sums) {
        constexpr int kTokens = Team::kRows;
        const uint32_t base = shared_address(team.ring), each = team.p.scales.group_segments;
        const float* upper = team.p.scales.row(weight_row(team, false));
        const float* lower = team.p.scales.row(weight_row(team, true));
        typename Team::Sums part = {};
        uint32_t a[2][4][4];
        uint32_t before = 0;
#pragma unroll 1
        for (uint32_t stage = team.begin; stage < team.end;) {
            // Inputs that share a scale.
            const uint32_t group = stage / each, first = stage, last = min((group + 1) * each, team.end);
            const float scales[2] = {__ldg(upper + group), __ldg(lower + group)};
#pragma unroll 1
            for (; stage < last; ++stage, place.advance(team.stages)) {
                const uint8_t* codes = team.ring + place.stage * Team::kBytes;
                const uint64_t x = matrix_along(base + place.stage * Team::kBytes + Team::kWeightBytes);
                team.barriers->full[place.stage].wait(place.parity);
#pragma unroll
                for (int half = 0; half < 2; ++half) {
                    widen(codes, half, a[half]);
                    pin(part);
                    begin_products();
#pragma unroll
                    for (int i = 0; i < 4; ++i) {
                        const uint32_t bytes = half * kTokens * kSlice * 2 + i * 32;
                        multiply_held<kTokens>(part, a[half][i], moved(x, bytes), stage != first || half != 0 || i != 0);
                    }
                    commit_products();
                    // The half before is done: its registers are free, and its stage.
                    wait_products<1>();
                    if (half == 0 && stage != team.begin) team.release(before);
                }
                before = place.stage;
            }
            wait_products<0>();
            pin(part);
#pragma unroll
            for (int i = 0; i < kTokens / 2; ++i) sums[i] += scales[i / 2 % 2] * part[i];
        }
    }
};

TEAM_KERNELS(Float8Codes, 8, linear_float8, linear_float8_gated, linear_float8_onward)
TEAM_KERNELS(Float8Codes, 16, linear_float8, linear_float8_gated, linear_float8_onward)
TEAM_KERNELS(Float8Codes, 32, linear_float8, linear_float8_gated, linear_float8_onward)
TEAM_KERNELS(Float8Codes, 64, linear_float8, linear_float8_gated, linear_float8_onward)
