// GEMM of up to eight rows: out = x · weightᵀ + bias, every weight read once, at memory bandwidth.
//
// A block takes groups of sixteen outputs with all of K, so no sums cross blocks. Warps split K within a stage and reduce in
// shared memory. A block takes most of an SM: with half of one the next GEMM could load its first stages meanwhile, but too
// few bytes would be in flight.
#include "common/barrier.cuh"
#include "common/mma.cuh"
#include "common/order.cuh"
#include "common/pipeline_state.cuh"
#include "common/room.cuh"
#include "linear/norm_factors.cuh"
#include "linear/row_epilogue.cuh"

constexpr int kTokens = 8;
constexpr int kWarps = 8;
constexpr int kSlice = 64;
constexpr int kThreads = 32 * (kWarps + 2);

// Norm factors (deferred RMS scale).
struct Factors {
    Barrier ready;
    float values[kTokens];

    __device__ __forceinline__ void wait() { ready.wait(0); }
};

template <int kGroups, Epilogue kEpilogue>
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

    using Rows = RowEpilogue<kGroups * 16, kTokens, 32 * kWarps, kEpilogue>;

    // Rows of sums are padded so that they begin in different banks.
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
        full->arrive_and_expect_tx(kBytes);
        const EvictFirst evict_first;
        if constexpr (kEpilogue == Epilogue::kGated) {
            // Eight gates, their eight up rows, and so on.
            evict_first.tma_load(to, &p.weight, full, 0, 0, 0, tile * kGroups, stage * kSlices);
        } else {
            evict_first.tma_load(to, &p.weight, full, 0, tile * kGroups * 16, stage * kSlices);
        }
    }

    static __device__ void fetch_rows(const LinearParams& p, uint8_t* to, Barrier* full, uint32_t stage) {
        tma_load(to + kWeightBytes, &p.x, full, 0, 0, stage * kSlices);
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

    // One thread keeps the ring full.
    static __device__ void produce(const LinearParams& p, uint8_t* ring, Rest* rest, uint32_t tiles) {
        const bool leads = threadIdx.x % 32 == 0;
        const uint32_t count = (tiles - blockIdx.x + gridDim.x - 1) / gridDim.x * p.stages;
        const uint32_t early = min(count, static_cast<uint32_t>(kStages));
        Course course, again;
        if (leads) {
            prefetch_tensormap(&p.weight);
            prefetch_tensormap(&p.x);
#pragma unroll 1
            for (uint32_t i = 0; i < early; ++i, course.advance(p.stages)) {
                fetch_weights(p, ring + i * kBytes, &rest->full[i], course.tile, course.stage);
            }
            if (early == count) launch_dependent_grids();
        }
        __syncwarp();
        wait_on_dependent_grids();
        if (!leads) return;
#pragma unroll 1
        for (uint32_t i = 0; i < early; ++i, again.advance(p.stages)) {
            fetch_rows(p, ring + i * kBytes, &rest->full[i], again.stage);
        }
        FixedPipelineState<kStages> place;
#pragma unroll 1
        for (uint32_t i = early; i < count; ++i, place.advance(), course.advance(p.stages)) {
            rest->empty[place.index].wait(place.parity);
            fetch_weights(p, ring + place.index * kBytes, &rest->full[place.index], course.tile, course.stage);
            fetch_rows(p, ring + place.index * kBytes, &rest->full[place.index], course.stage);
        }
        // The next GEMM's early loads fill the gap between this one's last stage and its own first results; launched sooner, they
        // would only compete with this one's.
        launch_dependent_grids();
    }

    // This warp's share of a stage.
    static __device__ __forceinline__ void multiply(uint32_t stage, float (&sums)[kMine][4]) {
        const uint32_t warp = threadIdx.x / 32, lane = threadIdx.x % 32, part = warp / kShares;
        const uint32_t row = lane % 16, side = lane / 16;
#pragma unroll
        for (int i = 0; i < kSteps / kShares; ++i) {
            const uint32_t step = warp % kShares + i * kShares, slice = step / 4, vector = step % 4 * 2;
            const uint32_t rows = stage + kWeightBytes + slice * kRowSlice;
            uint32_t x[2];
            ldmatrix(x, rows + lane % 8 * 128 + ((vector + lane / 8 % 2) ^ lane % 8) * 16);
            const uint32_t weights = stage + slice * kWeightSlice + row * 128 + ((vector + side) ^ row % 8) * 16;
#pragma unroll
            for (int j = 0; j < kMine; ++j) {
                const uint32_t group = part + j * kParts;
                if (kGroups % kParts != 0 && group >= kGroups) break;
                uint32_t a[4];
                ldmatrix(a, weights + group * 16 * 128);
                mma_bf16(sums[j], a, x[0], x[1]);
            }
        }
    }

    // Partial sums of the warps with the same outputs.
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
        const bool late = kEpilogue != Epilogue::kAddNorm && p.squares;
        FixedPipelineState<kStages> place;
        typename Rows::Prefetched prefetched;
#pragma unroll 1
        for (uint32_t tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
            const Rows rows(p, tile * (kGroups * 16));
            rows.prepare(prefetched);
            if (tile == blockIdx.x) wait_on_dependent_grids();
            if constexpr (kEpilogue == Epilogue::kAddNorm) rows.load_residuals(warp_sums, Rows::first_number(), prefetched);
            float sums[kMine][4] = {};
#pragma unroll 1
            for (uint32_t stage = 0; stage < p.stages; ++stage, place.advance()) {
                rest->full[place.index].wait(place.parity);
                multiply(base + place.index * kBytes, sums);
                __syncwarp();
                if (threadIdx.x % 32 == 0) rest->empty[place.index].arrive();
            }
            leave(rest, sums);
            named_barrier_sync(1, 32 * kWarps);
            if (late) rest->factors.wait();
            rows.run(warp_sums, late ? rest->factors.values : nullptr, prefetched);
            named_barrier_sync(1, 32 * kWarps);
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
            rest->factors.ready.init(kFactorLanes);
            publish_barriers();
        }
        __syncthreads();
        const uint32_t tiles = (p.outputs + kGroups * 16 - 1) / (kGroups * 16);
        if (threadIdx.x < 32 * kWarps) {
            consume(p, shared, rest, tiles);
        } else if (threadIdx.x < 32 * (kWarps + 1)) {
            produce(p, shared, rest, tiles);
        } else {
            wait_on_dependent_grids();
            if (kEpilogue != Epilogue::kAddNorm && p.squares) {
                compute_factors<1>(p, rest->factors.values, 0, 0, 1);
                arrive_factors_ready(rest->factors.ready);
            }
        }
    }
};

#define LINEAR_FEW(groups, name, epilogue)                                                                               \
    extern "C" __global__ void __launch_bounds__(kThreads) name##_few_##groups(const __grid_constant__ LinearParams p) { \
        Few<groups, Epilogue::epilogue>::run(p);                                                                           \
    }

#define LINEAR_FEWS(groups)                      \
    LINEAR_FEW(groups, linear_stream, kStore)  \
    LINEAR_FEW(groups, linear_gated, kGated)     \
    LINEAR_FEW(groups, linear_add_norm, kAddNorm)

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
