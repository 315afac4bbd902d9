// Products with up to eight rows: out = x · weightᵀ + bias, every weight read once, at the speed of memory.
//
// A block takes some groups of sixteen outputs with all their inputs, so that no sums are shared between blocks. Warps
// share the inputs of a stage; their sums meet in shared memory at the end of a tile. It takes most of a multiprocessor:
// half of one would let the next product fetch its first stages meanwhile, but too few bytes would be on their way.
#include "common/barrier.cuh"
#include "common/mma.cuh"
#include "common/order.cuh"
#include "common/ring_place.cuh"
#include "common/room.cuh"
#include "linear/factors.cuh"
#include "linear/rows.cuh"

constexpr int kTokens = 8;
constexpr int kWarps = 8;
constexpr int kSlice = 64;
constexpr int kThreads = 32 * (kWarps + 2);

// Factors of late norms; there when the barrier has opened.
struct Factors {
    Barrier found;
    float values[kTokens];

    __device__ __forceinline__ void wait() { found.wait(0); }
};

template <int kGroups, Ending kEnding>
struct Few {
    // Slices of 64 inputs in a stage: about 20 kB.
    static constexpr int kSlices = kGroups >= 8 ? 1 : kGroups >= 4 ? 2 : kGroups >= 2 ? 4 : 8;
    static constexpr int kSteps = 4 * kSlices;
    // Warps with different groups, and warps with different inputs of the same groups.
    static constexpr int kParts = kGroups >= 8 ? 4 : kGroups >= 2 ? 2 : 1;
    static constexpr int kShares = kWarps / kParts;
    static constexpr int kMine = (kGroups + kParts - 1) / kParts;

    static constexpr int kWeightSlice = kGroups * 16 * kSlice * 2;
    static constexpr int kRowSlice = kTokens * kSlice * 2;
    static constexpr int kWeightBytes = kSlices * kWeightSlice;
    static constexpr int kBytes = kWeightBytes + kSlices * kRowSlice;

    using Rows = RowEnding<kGroups * 16, kTokens, 32 * kWarps, kEnding>;

    // Rows of sums have a gap between them, so that they begin in different banks.
    static constexpr uint32_t kRow = kGroups * 16 + 4;

    struct Rest {
        float sums[kShares][kTokens][kRow];
        Factors factors;
        Barrier full[16];
        Barrier empty[16];
    };
    static constexpr int kFit = (kMostRoom - static_cast<int>(sizeof(Rest))) / kBytes;
    static constexpr int kStages = kFit < 16 ? kFit : 16;
    static_assert(kStages >= 2, "fits");

    static __device__ void fetch_weights(const LinearParams& p, uint8_t* to, Barrier* full, uint32_t tile, uint32_t stage) {
        full->expect(kBytes);
        const ReadOnce once;
        if constexpr (kEnding == Ending::kGated) {
            // Eight gates, their eight factors, and so on.
            once.copy_box(to, &p.weight, full, 0, 0, 0, tile * kGroups, stage * kSlices);
        } else {
            once.copy_box(to, &p.weight, full, 0, tile * kGroups * 16, stage * kSlices);
        }
    }

    static __device__ void fetch_rows(const LinearParams& p, uint8_t* to, Barrier* full, uint32_t stage) {
        copy_box(to + kWeightBytes, &p.x, full, 0, 0, stage * kSlices);
    }

    // The tiles of a block, stage by stage.
    struct Course {
        uint32_t tile = blockIdx.x;
        uint32_t stage = 0;

        __device__ __forceinline__ void advance(uint32_t stages) {
            if (++stage < stages) return;
            stage = 0;
            tile += gridDim.x;
        }
    };

    // One thread of a warp keeps the ring full.
    static __device__ void produce(const LinearParams& p, uint8_t* ring, Rest* rest, uint32_t tiles) {
        const bool leads = threadIdx.x % 32 == 0;
        const uint32_t count = (tiles - blockIdx.x + gridDim.x - 1) / gridDim.x * p.stages;
        const uint32_t early = min(count, static_cast<uint32_t>(kStages));
        Course course, again;
        if (leads) {
            expect_map(&p.weight);
            expect_map(&p.x);
#pragma unroll 1
            for (uint32_t i = 0; i < early; ++i, course.advance(p.stages)) {
                fetch_weights(p, ring + i * kBytes, &rest->full[i], course.tile, course.stage);
            }
            if (early == count) let_successor_begin();
        }
        __syncwarp();
        wait_for_predecessor();
        if (!leads) return;
#pragma unroll 1
        for (uint32_t i = 0; i < early; ++i, again.advance(p.stages)) {
            fetch_rows(p, ring + i * kBytes, &rest->full[i], again.stage);
        }
        RingPlace<kStages> place;
#pragma unroll 1
        for (uint32_t i = early; i < count; ++i, place.advance(), course.advance(p.stages)) {
            rest->empty[place.stage].wait(place.parity);
            fetch_weights(p, ring + place.stage * kBytes, &rest->full[place.stage], course.tile, course.stage);
            fetch_rows(p, ring + place.stage * kBytes, &rest->full[place.stage], course.stage);
        }
        // What the next product fetches early fills the gap between this one's last stage and its own first results;
        // begun sooner, it would only take turns with this one.
        let_successor_begin();
    }

    // Adds this warp's inputs of a stage.
    static __device__ __forceinline__ void multiply(uint32_t stage, float (&sums)[kMine][4]) {
        const uint32_t warp = threadIdx.x / 32, lane = threadIdx.x % 32, part = warp / kShares;
        const uint32_t row = lane % 16, side = lane / 16;
#pragma unroll
        for (int i = 0; i < kSteps / kShares; ++i) {
            const uint32_t step = warp % kShares + i * kShares, slice = step / 4, piece = step % 4 * 2;
            const uint32_t rows = stage + kWeightBytes + slice * kRowSlice;
            uint32_t x[2];
            load_matrices(x, rows + lane % 8 * 128 + ((piece + lane / 8 % 2) ^ lane % 8) * 16);
            const uint32_t weights = stage + slice * kWeightSlice + row * 128 + ((piece + side) ^ row % 8) * 16;
#pragma unroll
            for (int j = 0; j < kMine; ++j) {
                const uint32_t group = part + j * kParts;
                if (kGroups % kParts != 0 && group >= kGroups) break;
                uint32_t a[4];
                load_matrices(a, weights + group * 16 * 128);
                multiply_bf16(sums[j], a, x[0], x[1]);
            }
        }
    }

    // What warps have of the same outputs.
    struct WarpSums {
        static constexpr uint32_t row_floats = kRow;
        const float* sums;

        __device__ __forceinline__ uint32_t row(uint32_t number) const { return number; }

        template <int kCount>
        __device__ __forceinline__ void add(const uint32_t (&places)[kCount], float (&totals)[kCount][4]) const {
#pragma unroll
            for (int i = 0; i < kCount; ++i) {
                totals[i][0] = totals[i][1] = totals[i][2] = totals[i][3] = 0.0f;
#pragma unroll
                for (int share = 0; share < kShares; ++share) {
                    const float4 found = *reinterpret_cast<const float4*>(sums + share * kTokens * kRow + places[i]);
                    totals[i][0] += found.x, totals[i][1] += found.y, totals[i][2] += found.z, totals[i][3] += found.w;
                }
            }
        }
    };

    static __device__ __forceinline__ void leave(Rest* rest, const float (&sums)[kMine][4]) {
        const uint32_t warp = threadIdx.x / 32, lane = threadIdx.x % 32;
#pragma unroll
        for (int j = 0; j < kMine; ++j) {
            const uint32_t group = warp / kShares + j * kParts;
            if (kGroups % kParts != 0 && group >= kGroups) break;
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                rest->sums[warp % kShares][lane % 4 * 2 + i % 2][group * 16 + lane / 4 + i / 2 * 8] = sums[j][i];
            }
        }
    }

    static __device__ void consume(const LinearParams& p, uint8_t* ring, Rest* rest, uint32_t tiles) {
        const uint32_t base = shared_address(ring);
        const WarpSums warp_sums{&rest->sums[0][0][0]};
        const bool late = kEnding != Ending::kOnward && p.squares;
        RingPlace<kStages> place;
        typename Rows::Ahead ahead;
#pragma unroll 1
        for (uint32_t tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
            const Rows rows(p, tile * (kGroups * 16));
            rows.prepare(ahead);
            if (tile == blockIdx.x) wait_for_predecessor();
            if constexpr (kEnding == Ending::kOnward) rows.load_residuals(warp_sums, Rows::first_number(), ahead);
            float sums[kMine][4] = {};
#pragma unroll 1
            for (uint32_t stage = 0; stage < p.stages; ++stage, place.advance()) {
                rest->full[place.stage].wait(place.parity);
                multiply(base + place.stage * kBytes, sums);
                __syncwarp();
                if (threadIdx.x % 32 == 0) rest->empty[place.stage].arrive();
            }
            leave(rest, sums);
            meet(1, 32 * kWarps);
            if (late) rest->factors.wait();
            rows.run(warp_sums, late ? rest->factors.values : nullptr, ahead);
            meet(1, 32 * kWarps);
        }
    }

    static __device__ void run(const LinearParams& p) {
        extern __shared__ __align__(1024) uint8_t shared[];
        Rest* rest = reinterpret_cast<Rest*>(shared + kStages * kBytes);
        if (threadIdx.x == 0) {
#pragma unroll 1
            for (int i = 0; i < kStages; ++i) {
                rest->full[i].init(1);
                rest->empty[i].init(kWarps);
            }
            rest->factors.found.init(kFinders);
            publish_barriers();
        }
        __syncthreads();
        const uint32_t tiles = (p.outputs + kGroups * 16 - 1) / (kGroups * 16);
        if (threadIdx.x < 32 * kWarps) {
            consume(p, shared, rest, tiles);
        } else if (threadIdx.x < 32 * (kWarps + 1)) {
            produce(p, shared, rest, tiles);
        } else {
            wait_for_predecessor();
            if (kEnding != Ending::kOnward && p.squares) {
                find_factors<1>(p, rest->factors.values, 0, 0, 1);
                tell_found(rest->factors.found);
            }
        }
    }
};

#define LINEAR_FEW(groups, name, ending)                                                                               \
    extern "C" __global__ void __launch_bounds__(kThreads) name##_few_##groups(const __grid_constant__ LinearParams p) { \
        Few<groups, Ending::ending>::run(p);                                                                           \
    }

#define LINEAR_FEWS(groups)                      \
    LINEAR_FEW(groups, linear_stream, kResults)  \
    LINEAR_FEW(groups, linear_gated, kGated)     \
    LINEAR_FEW(groups, linear_onward, kOnward)

LINEAR_FEWS(1)
LINEAR_FEWS(2)
LINEAR_FEWS(3)
LINEAR_FEWS(4)
LINEAR_FEWS(6)
LINEAR_FEWS(8)
LINEAR_FEWS(9)
LINEAR_FEWS(12)
LINEAR_FEWS(14)
LINEAR_FEWS(16)
