// GEMM of tiles of 192 outputs by up to 256 rows.
//
// A block takes one tile with all of K and a whole SM. Weights are operand A, 64 outputs per warpgroup; half of the rows at a
// time is operand B. Rows have a ring of their own: every block reads them from L2, which takes long, so they are released by
// halves. Results go from registers to global memory; shared memory is full.
#pragma once
#include "../common/activate.cuh"
#include "../common/order.cuh"
#include "../common/registers.cuh"
#include "../common/pipeline_state.cuh"
#include "../common/room.cuh"
#include "../common/wgmma.cuh"
#include "params.cuh"

template <int kStages>
struct WideRing {
    Barrier full[kStages];
    Barrier empty[kStages];

    __device__ void init(uint32_t readers) {
#pragma unroll 1
        for (int i = 0; i < kStages; ++i) {
            full[i].init(1);
            empty[i].init(readers);
        }
    }

    // One thread keeps it full.
    template <class Fetch>
    __device__ void produce(uint32_t stages, Fetch fetch) {
        FixedPipelineState<kStages> place;
#pragma unroll 1
        for (uint32_t stage = 0; stage < stages; ++stage, place.advance()) {
            // Nothing to wait for in the first round.
            empty[place.index].wait(place.parity ^ 1);
            fetch(place.index, stage);
        }
    }
};

template <Epilogue kEpilogue>
struct Wide {
    static constexpr bool kGated = kEpilogue == Epilogue::kGated;
    // Inputs of a stage, and their bytes.
    static constexpr int kSlice = 64;
    static constexpr int kSliceBytes = 128;
    static constexpr int kGroups = 3;
    static constexpr int kOutputs = 64 * kGroups;
    // N of one MMA. A warpgroup has two: with 512 threads the compiler has too few registers for a larger one.
    static constexpr int kRows = 128;
    static constexpr int kHalves = 2;
    static constexpr int kWeightStages = 4;
    static constexpr int kRowStages = 8;
    // The last stages are multiplied with one half of the rows, then with the other, so that the first half's epilogue overlaps.
    static constexpr uint32_t kLast = 3;
    static_assert(kLast <= kWeightStages && kHalves * kLast <= kRowStages, "they are there at the same time");
    static constexpr int kWeightBytes = kOutputs * kSliceBytes;
    static constexpr int kRowBytes = kRows * kSliceBytes;
    static constexpr int kConsumers = 128 * kGroups;
    static constexpr int kThreads = kConsumers + 128;
    using HalfSums = float[kRows / 2];
    using WeightPlace = FixedPipelineState<kWeightStages>;
    using RowPlace = FixedPipelineState<kRowStages>;

    struct Shared {
        uint8_t weights[kWeightStages][kWeightBytes];
        uint8_t rows[kRowStages][kRowBytes];
        WideRing<kWeightStages> weight_ring;
        WideRing<kRowStages> row_ring;
    };
    static_assert(sizeof(Shared) <= kWholeRoom, "fits");

    const LinearParams& p;
    Shared& shared;

    __device__ void run() const {
        if (threadIdx.x == 0) {
            shared.weight_ring.init(kGroups);
            shared.row_ring.init(kGroups);
            publish_barriers();
        }
        if (threadIdx.x == kConsumers) prefetch_tensormap(&p.weight);
        if (threadIdx.x == kConsumers + 32) prefetch_tensormap(&p.x);
        __syncthreads();
        launch_dependent_grids();
        if (threadIdx.x >= kConsumers) {
            warpgroup_reg_dealloc<32>();
            if (threadIdx.x == kConsumers) fetch_weights();
            if (threadIdx.x == kConsumers + 32) fetch_rows();
        } else {
            warpgroup_reg_alloc<160>();
            consume();
        }
    }

private:
    // With fewer, TMA fills in zeros.
    __device__ __forceinline__ uint32_t stages() const { return max(p.stages, kLast + 1); }

    // A warp's sixteen rows: eight gates and their eight up rows, or even outputs and odd outputs.
    __device__ void fetch_weights() const {
        const EvictFirst evict_first;
        shared.weight_ring.produce(stages(), [&](uint32_t slot, uint32_t stage) {
            Barrier* full = &shared.weight_ring.full[slot];
            full->arrive_and_expect_tx(kWeightBytes);
            evict_first.tma_load(shared.weights[slot], &p.weight, full, stage * kSlice, 0, 0, blockIdx.x * (kOutputs / 16));
        });
    }

    __device__ void fetch_rows() const {
        const uint32_t all = stages() * kHalves, last = all - kHalves * kLast;
        wait_on_dependent_grids();
        shared.row_ring.produce(all, [&](uint32_t slot, uint32_t number) {
            Barrier* full = &shared.row_ring.full[slot];
            full->arrive_and_expect_tx(kRowBytes);
            const bool ends = number >= last;
            const uint32_t half = ends ? (number - last) / kLast : number % kHalves;
            const uint32_t stage = ends ? last / kHalves + (number - last) % kLast : number / kHalves;
            tma_load(shared.rows[slot], &p.x, full, stage * kSlice, half * kRows);
        });
    }

    // Issues the MMAs of a stage with half of the rows.
    __device__ __forceinline__ void multiply(HalfSums& sums, const WeightPlace& at, const RowPlace& row_at, bool first) const {
        const uint32_t weights = shared_address(shared.weights) + threadIdx.x / 128 * 64 * kSliceBytes;
        const uint64_t a = k_major_descriptor(weights + at.index * kWeightBytes);
        const uint64_t b = k_major_descriptor(shared_address(shared.rows) + row_at.index * kRowBytes);
        shared.row_ring.full[row_at.index].wait(row_at.parity);
        warpgroup_fence_operand(sums);
        warpgroup_arrive();
#pragma unroll
        for (int step = 0; step < kSlice / 16; ++step) {
            wgmma_ss<kRows>(sums, advance_descriptor(a, step * 32), advance_descriptor(b, step * 32), !first || step != 0);
        }
        warpgroup_commit();
    }

    __device__ __forceinline__ void wait_for_weights(const WeightPlace& at) const {
        shared.weight_ring.full[at.index].wait(at.parity);
    }

    // All stages but the last.
    __device__ __forceinline__ void begin(HalfSums (&sums)[kHalves], WeightPlace& at, RowPlace& row_at) const {
        const bool releases = threadIdx.x % 128 == 0;
        const uint32_t count = stages() - kLast;
        uint32_t before = 0, row_before = 0;
        uint32_t stage = 0;
#pragma unroll 1
        do {
            wait_for_weights(at);
#pragma unroll
            for (int half = 0; half < kHalves; ++half, row_at.advance()) {
                multiply(sums[half], at, row_at, stage == 0);
                // At most one MMA group in flight: the one before is done.
                warpgroup_wait<1>();
                if (releases && (stage != 0 || half != 0)) {
                    shared.row_ring.empty[row_before].arrive();
                    if (half == 0) shared.weight_ring.empty[before].arrive();
                }
                row_before = row_at.index;
            }
            before = at.index;
            at.advance();
        } while (++stage < count);
    }

    __device__ __forceinline__ void consume() const {
        HalfSums sums[kHalves] = {};
        WeightPlace at;
        RowPlace row_at;
        begin(sums, at, row_at);
        WeightPlace again = at;
#pragma unroll
        for (uint32_t stage = 0; stage < kLast; ++stage, at.advance(), row_at.advance()) {
            wait_for_weights(at);
            multiply(sums[0], at, row_at, false);
        }
#pragma unroll
        for (uint32_t stage = 0; stage < kLast; ++stage, again.advance(), row_at.advance()) {
            multiply(sums[1], again, row_at, false);
        }
        warpgroup_wait<kLast>();
        warpgroup_fence_operand(sums[0]);
        // Unrolled whole: only then does the compiler let MMAs run beside it.
        end<1>(sums[0], 0);
        warpgroup_wait<0>();
        warpgroup_fence_operand(sums[1]);
        end<4>(sums[1], 1);
    }

    template <int kParts>
    __device__ __forceinline__ void end(HalfSums& sums, uint32_t half) const {
        if constexpr (!kGated) {
            write<kParts>(sums, half, [](float first, float second) { return __floats2bfloat162_rn(first, second); });
        } else {
            write<kParts>(sums, half, [&](float gate, float up) { return __float2bfloat16(activate(gate, p.gelu) * up); });
        }
    }

    // A thread has two outputs of two rows in every eight: neighbours, or a gate and its up value.
    template <int kParts, class Join>
    __device__ __forceinline__ void write(HalfSums& sums, uint32_t half, Join join) const {
        using Out = decltype(join(0.0f, 0.0f));
        const uint32_t lane = threadIdx.x % 32, row = half * kRows + lane % 4 * 2;
        const uint32_t at = blockIdx.x * (kOutputs / 2) + threadIdx.x / 32 * 8 + lane / 4;
        if (at >= p.outputs / 2) return;
        float biases[2] = {};
        if (p.bias) {
            biases[0] = __bfloat162float(p.bias[kGated ? at : 2 * at]);
            biases[1] = __bfloat162float(p.bias[kGated ? p.outputs / 2 + at : 2 * at + 1]);
        }
        int rows = static_cast<int>(p.rows) - static_cast<int>(row);
        const size_t stride = kGated ? p.out_stride : p.out_stride / 2;
        Out* to = static_cast<Out*>(p.out) + row * stride + at;
        // In parts, moving the other sums up: moves cost less than fetching more code.
        constexpr int kPart = kRows / 2 / kParts;
#pragma unroll 1
        for (int part = 0; part < kParts && (kParts == 1 || rows > 0); ++part, rows -= 2 * kPart) {
#pragma unroll
            for (int i = 0; i < kPart; i += 4, to += 8 * stride) {
                const Out even = join(sums[i] + biases[0], sums[i + 2] + biases[1]);
                const Out odd = join(sums[i + 1] + biases[0], sums[i + 3] + biases[1]);
                if (i * 2 < rows) to[0] = even;
                if (i * 2 + 1 < rows) to[stride] = odd;
            }
#pragma unroll
            for (int i = kPart; i < kRows / 2; ++i) sums[i - kPart] = sums[i];
        }
    }
};
