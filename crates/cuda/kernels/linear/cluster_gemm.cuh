// GEMM of tens of rows, with split-K over the blocks of a cluster.
//
// A warpgroup multiplies 64 outputs of the weight with all rows of x; the weight format and the row count decide which is
// operand A. A block takes one tile of outputs and a whole SM. Where there are fewer tiles than SMs, the blocks of a cluster
// split K: each sends its sums to the blocks that finish the rows, and finishes some rows itself.
#pragma once
#include "../common/cluster.cuh"
#include "../common/mma.cuh"
#include "../common/order.cuh"
#include "../common/pipeline_state.cuh"
#include "../common/room.cuh"
#include "../common/shares.cuh"
#include "../common/wgmma.cuh"
#include "norm_factors.cuh"
#include "row_epilogue.cuh"

// Elements of x, and bytes of a weight row, that one TMA load brings.
constexpr int kSlice = 64;
constexpr int kRowBytes = 128;
// Warps that compute norm factors (deferred RMS scale).
constexpr int kFactorWarps = 3;
constexpr int kMostStages = 24;

// The outputs of a block, in groups of 64.
struct Span {
    uint32_t first;
    uint32_t count;
};

// Common to weights loaded by TMA: outputs past the end are zeros, nothing is prefetched to registers.
struct TmaWeights {
    static constexpr int kGroupBytes = 64 * kRowBytes;
    static constexpr int kPingPongOfOne = 1;
    struct Prefetched {};

    template <int kGroups, bool kGated, class Params>
    static __device__ __forceinline__ Span span(const Params& p, uint32_t tile) {
        return {tile * kGroups, kGroups};
    }

    template <class Params>
    static __device__ __forceinline__ void expect(const Params& p) {
        prefetch_tensormap(&p.weight);
    }

    template <int kGroups, bool kGated, class Params>
    static __device__ __forceinline__ uint32_t bytes(const Params& p, const Span& span) {
        return kGroups * kGroupBytes;
    }

    template <class Gemm>
    static __device__ __forceinline__ void prepare(const Gemm& gemm, Prefetched& prefetched) {}
};

// `Kind`: how a stage of weights is loaded and multiplied (`linear_cluster.cu` has the plainest). `kThreadsToRelease`: one of
// that many threads releases a stage for all. `kMayBeSecond`: weights may be operand B. `kPingPongOfOne`: ping-pong
// warpgroups, which take alternate stages, of a tile of 64 outputs.
template <class Kind, int kGroups, int kTokens, Epilogue kEpilogue>
struct ClusterGemm {
    using Params = typename Kind::Params;
    static constexpr bool kGated = kEpilogue == Epilogue::kGated;
    static constexpr int kOutputs = 64 * kGroups;
    static constexpr int kRows = kTokens;
    // Rows of x begin at a multiple of 1024 (swizzle).
    static constexpr int kWeightBytes = (kGroups * Kind::kGroupBytes + 1023) / 1024 * 1024;
    static constexpr int kInputBytes = kTokens * Kind::kInputs * 2;
    static constexpr int kBytes = kWeightBytes + kInputBytes;
    static constexpr int kPingPong = kGroups == 1 ? Kind::kPingPongOfOne : 1;
    static constexpr int kConsumers = 128 * kGroups * kPingPong;
    static constexpr int kThreads = kConsumers + 128;
    // The rest of shared memory is for barriers and norm factors.
    static constexpr int kFit = (kWholeRoom - 1024) / kBytes;
    static constexpr int kStages = kFit < kMostStages ? kFit : kMostStages;

    using Sums = float[kTokens / 2];
    // Rows of x are operand A: a thread has neighbouring outputs of two rows; otherwise one output of many rows.
    static constexpr bool kRowsFirst = Kind::kMayBeSecond && kTokens == 64;
    using Rows = RowEpilogue<kOutputs, kTokens, kConsumers, kEpilogue>;

    // Most padding, in floats, between the sums for one block and the next.
    static constexpr int kShareGap = 16;

    struct Barriers {
        Barrier full[kStages];
        Barrier empty[kStages];
        // Completes when the norm factors are there.
        Barrier factors_ready;
        // Completes when the other blocks' sums are there.
        Barrier received_sums;
        alignas(8) float factors[kTokens];
    };
    static_assert(sizeof(Barriers) <= 1024, "fits");
    // Most blocks of a cluster.
    static constexpr int kMostParts = 8;
    static constexpr int kMostSums = (kTokens * (kOutputs + 8) + kMostParts * kShareGap) * 4;
    static constexpr int kMostReceived = kMostSums / kMostParts * (kMostParts - 1);
    // Sums that ping-pong warpgroups leave for the first one.
    static constexpr int kLeft = (kPingPong - 1) * kOutputs * kTokens * 4;
    static_assert(kMostSums + kLeft + kMostReceived <= kStages * kBytes, "sums take the place of stages, beside those of others");
    // A stage is released after the next one has arrived.
    static_assert(kStages - (kMostReceived + kBytes - 1) / kBytes >= 2, "there is room for the next stage");

    const Params& p;
    uint8_t* ring;
    Barriers* barriers;
    // Rank in the cluster and its size: the blocks that split K of a tile.
    uint32_t part;
    uint32_t parts;
    // log2(parts): rows are dealt round robin to blocks.
    uint32_t shift;
    Span span;
    // Stages of the ring; the other blocks' sums lie at its end.
    uint32_t stages;
    // K range, in stages.
    uint32_t begin;
    uint32_t end;

    __device__ ClusterGemm(const Params& params, uint8_t* shared)
        : p(params), ring(shared), barriers(reinterpret_cast<Barriers*>(shared + kStages * kBytes)) {
        part = cluster_rank();
        parts = cluster_size();
        shift = 31 - __clz(parts);
        span = Kind::template span<kGroups, kGated>(p, blockIdx.x / parts);
        const Shares shares(p.stages, parts);
        begin = shares.begin(part);
        end = shares.begin(part + 1);
        // Ping-pong warpgroups must have the same stages of the ring in each round, or they would miss a barrier phase.
        stages = (kStages - (received_bytes() + kBytes - 1) / kBytes) / kPingPong * kPingPong;
    }

    // Thread number within a warpgroup set, and which ping-pong set it is in.
    static __device__ __forceinline__ uint32_t worker() { return kPingPong == 1 ? threadIdx.x : threadIdx.x % (128 * kGroups); }
    static __device__ __forceinline__ uint32_t ping_pong() { return kPingPong == 1 ? 0 : threadIdx.x / (128 * kGroups); }

    // A stage is free when all computing threads are done with it. A warp's MMA reads its lanes' registers together and was
    // waited for, so one lane may arrive for the others.
    __device__ __forceinline__ void release(uint32_t slot) const {
        if (threadIdx.x % Kind::kThreadsToRelease == 0) barriers->empty[slot].arrive();
    }

    __device__ void run() const {
        begin_run();
        if (threadIdx.x >= kConsumers) {
            const uint32_t warp = (threadIdx.x - kConsumers) / 32;
            if (warp > 0) {
                compute_norm_factors(warp - 1);
            } else {
                produce();
            }
        } else {
            consume();
        }
    }

protected:
    // Initialises barriers and launches dependents.
    __device__ __forceinline__ void begin_run() const {
        if (threadIdx.x == 0) {
#pragma unroll 1
            for (int i = 0; i < kStages; ++i) {
                barriers->full[i].init(1);
                barriers->empty[i].init(128 * span.count / Kind::kThreadsToRelease);
            }
            barriers->factors_ready.init(kFactorWarps * kFactorLanes);
            barriers->received_sums.init(1);
            publish_barriers();
            barriers->received_sums.arrive_and_expect_tx(received_bytes());
        }
        if (threadIdx.x == kConsumers) {
            Kind::expect(p);
            prefetch_tensormap(&p.x);
        }
        __syncthreads();
        if (parts > 1) cluster_arrive();
        if (!p.delays_dependents) launch_dependent_grids();
    }

    __device__ __forceinline__ void compute_norm_factors(uint32_t warp) const {
        if (kGated && !p.squares) fill_factors<kFactorWarps, kTokens>(barriers->factors, warp);
        wait_on_dependent_grids();
        if (kEpilogue != Epilogue::kAddNorm && p.squares) compute_factors<kFactorWarps>(p, barriers->factors, warp, part, parts);
        arrive_factors_ready(barriers->factors_ready);
    }

    __device__ void fetch_weights(uint32_t slot, const Span& from, uint32_t stage) const {
        Barrier* full = &barriers->full[slot];
        full->arrive_and_expect_tx(Kind::template bytes<kGroups, kGated>(p, from) + kInputBytes);
        Kind::template fetch<kGroups, kGated>(p, ring + slot * kBytes, full, from, stage);
    }

    __device__ void fetch_x(uint32_t slot, uint32_t stage) const {
#pragma unroll
        for (int slice = 0; slice < Kind::kInputs / kSlice; ++slice) {
            tma_load(ring + slot * kBytes + kWeightBytes + slice * kTokens * kSlice * 2, &p.x, &barriers->full[slot],
                     stage * Kind::kInputs + slice * kSlice, 0);
        }
    }

private:
    // Sums of the rows that one block finishes. They replace the stages, block by block; received sums go to the end of the
    // ring. Rows and shares are padded so that a warp's stores go to different banks.
    __device__ __forceinline__ uint32_t row_floats() const { return kOutputs + (kRowsFirst ? 8 : 4 + min(shift, 1u) * 4); }
    __device__ __forceinline__ uint32_t share_floats() const { return (kTokens >> shift) * row_floats() + share_gap(); }
    __device__ __forceinline__ uint32_t share_gap() const {
        if (kRowsFirst) return shift == 0 ? 0 : shift == 1 ? 16 : 8;
        return shift < 2 ? 0 : 32 >> shift;
    }
    __device__ __forceinline__ uint32_t received_bytes() const { return (parts - 1) * share_floats() * 4; }

    __device__ __forceinline__ float* share(uint32_t to) const { return reinterpret_cast<float*>(ring) + to * share_floats(); }
    __device__ __forceinline__ float* received(uint32_t from, uint32_t to) const {
        return reinterpret_cast<float*>(ring + kStages * kBytes - received_bytes()) + (from - (from > to)) * share_floats();
    }

    // One thread keeps the ring full.
    __device__ void produce() const {
        const bool leads = threadIdx.x % 32 == 0;
        const uint32_t count = end - begin, early = min(count, stages);
        if (leads) {
#pragma unroll 1
            for (uint32_t i = 0; i < early; ++i) fetch_weights(i, span, begin + i);
        }
        __syncwarp();
        wait_on_dependent_grids();
        if (p.delays_dependents) launch_dependent_grids();
        if (!leads) return;
#pragma unroll 1
        for (uint32_t i = 0; i < early; ++i) fetch_x(i, begin + i);
        PipelineState place;
#pragma unroll 1
        for (uint32_t i = early; i < count; ++i, place.advance(stages)) {
            barriers->empty[place.index].wait(place.parity);
            fetch_weights(place.index, span, begin + i);
            fetch_x(place.index, begin + i);
        }
    }

    // Two ping-pong warpgroups split the reduction: each ends with half of the outputs. With gates the first one takes all, since a
    // gate and its up value are in different halves.
    static constexpr bool kHalved = kPingPong > 1 && !kGated;

    // Exchanged sums lie after the final sums; all stages have been read.
    __device__ __forceinline__ void add_ping_pong(Sums& sums) const {
        static_assert(kPingPong <= 2, "one leaves sums, one takes them");
        named_barrier_sync(1, kConsumers);
        if (ping_pong() == 1) {
            leave_half<0>(sums);
            if (!kHalved) leave_half<1>(sums);
        } else if (kHalved) {
            leave_half<1>(sums);
        }
        named_barrier_sync(1, kConsumers);
        if (ping_pong() == 0) {
            take_half<0>(sums);
            if (!kHalved) take_half<1>(sums);
        } else if (kHalved) {
            take_half<1>(sums);
        }
    }

    template <int kHalf>
    __device__ __forceinline__ float2* left() const {
        return reinterpret_cast<float2*>(ring + kMostSums) + kHalf * (kTokens / 8 * 128) + worker();
    }

    template <int kHalf>
    __device__ __forceinline__ void leave_half(const Sums& sums) const {
#pragma unroll
        for (int i = 0; i < kTokens / 8; ++i) left<kHalf>()[i * 128] = make_float2(sums[i * 4 + kHalf * 2], sums[i * 4 + kHalf * 2 + 1]);
    }

    template <int kHalf>
    __device__ __forceinline__ void take_half(Sums& sums) const {
#pragma unroll
        for (int i = 0; i < kTokens / 8; ++i) {
            const float2 other = left<kHalf>()[i * 128];
            sums[i * 4 + kHalf * 2] += other.x, sums[i * 4 + kHalf * 2 + 1] += other.y;
        }
    }

    // Sums are stored by the block that finishes their rows: eight rows are dealt round robin; a thread has sums of one or two.
    __device__ __forceinline__ void put(const Sums& sums) const {
        if constexpr (kRowsFirst) {
            put_neighbours(sums);
        } else if constexpr (!kHalved) {
            if (ping_pong() == 0) put_columns<true, true>(sums);
        } else if (ping_pong() == 0) {
            put_columns<true, false>(sums);
        } else {
            put_columns<false, true>(sums);
        }
    }

    __device__ __forceinline__ void put_neighbours(const Sums& sums) const {
        const uint32_t lane = threadIdx.x % 32, output = threadIdx.x / 128 * 64 + lane % 4 * 2;
#pragma unroll
        for (uint32_t half = 0; half < 2; ++half) {
            const uint32_t token = threadIdx.x / 32 % 4 * 16 + half * 8 + lane / 4;
            float* place = share(token & (parts - 1)) + (token >> shift) * row_floats() + output;
#pragma unroll
            for (uint32_t i = 0; i < 8; ++i) {
                *reinterpret_cast<float2*>(place + i * 8) = make_float2(sums[i * 4 + half * 2], sums[i * 4 + half * 2 + 1]);
            }
        }
    }

    // The first, the second, or both of a thread's outputs.
    template <bool kFirst, bool kSecond>
    __device__ __forceinline__ void put_columns(const Sums& sums) const {
        const uint32_t lane = threadIdx.x % 32, output = worker() / 32 * 16 + lane / 4, step = (8 >> shift) * row_floats();
#pragma unroll
        for (int parity = 0; parity < 2; ++parity) {
            const uint32_t token = lane % 4 * 2 + parity;
            float* place = share(token & (parts - 1)) + (token >> shift) * row_floats() + output;
#pragma unroll
            for (int i = parity; i < kTokens / 2; i += 4, place += step) {
                if (kFirst) place[0] = sums[i];
                if (kSecond) place[8] = sums[i + 2];
            }
        }
    }

    // One thread per other block sends the sums that block finishes, then all wait for the received ones.
    __device__ __forceinline__ void exchange() const {
        const uint32_t to = threadIdx.x;
        if (to < parts && to != part) {
            const uint32_t place = map_to_rank(to, shared_address(received(part, to)));
            bulk_copy_to_rank(place, share(to), share_floats() * 4, map_to_rank(to, shared_address(&barriers->received_sums)));
        }
        barriers->received_sums.wait(0);
        cluster_arrive();
    }

    // Gated activation in registers: gates and up values alternate by eight. All warps run this at once with nothing to
    // overlap, so every instruction counts.
    __device__ __forceinline__ void gate(const Sums& sums) const {
        barriers->factors_ready.wait(0);
        if constexpr (kRowsFirst) {
            gate_neighbours(sums);
        } else {
            gate_columns(sums);
        }
    }

    // A thread has one output of two neighbouring rows in eight. A movmatrix transpose gives it two neighbouring outputs to
    // store.
    __device__ __forceinline__ void gate_columns(const Sums& sums) const {
        const uint32_t lane = threadIdx.x % 32, width = p.outputs / 2, first = span.first * 32 + worker() / 32 * 8;
        if (first >= width) return;
        float bias[2] = {}, gates[kTokens / 4], factors[kTokens / 4];
        if (p.bias) {
            bias[0] = __bfloat162float(p.bias[first + lane / 4]);
            bias[1] = __bfloat162float(p.bias[width + first + lane / 4]);
        }
#pragma unroll
        for (uint32_t i = 0; i < kTokens / 4; i += 2) {
            const float2 pair = *reinterpret_cast<const float2*>(&barriers->factors[i * 4 + lane % 4 * 2]);
            factors[i] = pair.x, factors[i + 1] = pair.y;
            gates[i] = sums[i * 2] * pair.x + bias[0], gates[i + 1] = sums[i * 2 + 1] * pair.y + bias[0];
        }
        activate_all(gates, p.gelu);
        bf16* to = static_cast<bf16*>(p.out) + lane / 4 * p.out_stride + first + lane % 4 * 2;
#pragma unroll
        for (uint32_t i = 0; i < kTokens / 4; i += 2, to += 8 * p.out_stride) {
            const float left = gates[i] * (sums[i * 2 + 2] * factors[i] + bias[1]);
            const float right = gates[i + 1] * (sums[i * 2 + 3] * factors[i + 1] + bias[1]);
            const __nv_bfloat162 pair = __floats2bfloat162_rn(left, right);
            const uint32_t turned = movmatrix_trans(*reinterpret_cast<const uint32_t*>(&pair));
            if (i * 4 + lane / 4 < p.rows) *reinterpret_cast<uint32_t*>(to) = turned;
        }
    }

    // A thread has two neighbouring outputs of two rows.
    __device__ __forceinline__ void gate_neighbours(const Sums& sums) const {
        const uint32_t lane = threadIdx.x % 32, row = threadIdx.x / 32 % 4 * 16 + lane / 4;
        const uint32_t first = (span.first + threadIdx.x / 128) * 32 + lane % 4 * 2, width = p.outputs / 2;
        const float factors[2] = {barriers->factors[row], barriers->factors[row + 8]};
#pragma unroll
        for (uint32_t i = 0; i < 4; ++i) {
            const uint32_t place = first + i * 8;
            if (place >= width) break;
            float2 bias[2] = {};
            if (p.bias) {
                bias[0] = __bfloat1622float2(*reinterpret_cast<const __nv_bfloat162*>(p.bias + place));
                bias[1] = __bfloat1622float2(*reinterpret_cast<const __nv_bfloat162*>(p.bias + width + place));
            }
#pragma unroll
            for (uint32_t half = 0; half < 2; ++half) {
                const float* gates = &sums[i * 8 + half * 2];
                const float factor = factors[half];
                const float left = activate(gates[0] * factor + bias[0].x, p.gelu) * (gates[4] * factor + bias[1].x);
                const float right = activate(gates[1] * factor + bias[0].y, p.gelu) * (gates[5] * factor + bias[1].y);
                bf16* to = static_cast<bf16*>(p.out) + (row + half * 8) * p.out_stride + place;
                if (row + half * 8 < p.rows) *reinterpret_cast<__nv_bfloat162*>(to) = __floats2bfloat162_rn(left, right);
            }
        }
    }

    __device__ void consume() const {
        constexpr bool kAddsNorm = kEpilogue == Epilogue::kAddNorm;
        if (worker() / 128 >= span.count) {
            wait_on_dependent_grids();
            return;
        }
        Sums sums = {};
        typename Rows::Prefetched prefetched;
        const Rows rows(p, span.first * 64);
        const TileSums tile_sums{share(part), received(0, part), part, parts, share_floats(), row_floats()};
        rows.prepare(prefetched);
        typename Kind::Prefetched prefetched_weights;
        Kind::prepare(*this, prefetched_weights);
        wait_on_dependent_grids();
        if constexpr (kAddsNorm) rows.load_residuals(tile_sums, Rows::first_number(), prefetched);
        PipelineState place{ping_pong()};
        Kind::multiply(*this, place, prefetched_weights, sums);
        if constexpr (kPingPong > 1) add_ping_pong(sums);
        if constexpr (kGated) {
            if (parts == 1) {
                if (ping_pong() == 0) gate(sums);
                return;
            }
        }
        if (parts > 1) cluster_wait();
        // All MMAs are done, but other warpgroups may still read the stages.
        if constexpr (kPingPong == 1) named_barrier_sync(1, kConsumers);
        put(sums);
        publish_shared();
        named_barrier_sync(1, kConsumers);
        if (parts > 1) exchange();
        const bool late = !kAddsNorm && p.squares;
        if (late) barriers->factors_ready.wait(0);
        rows.run(tile_sums, late ? barriers->factors : nullptr, prefetched);
        // Sent sums must stay until the other blocks have received them.
        if (parts > 1) cluster_wait();
    }
};

// All kernels of a weight format: tiles of 64 to 192 outputs, `tokens` rows, every epilogue; `name` is the prefix.
#define CLUSTER_GEMM_KERNEL(kind, groups, tokens, name, epilogue)                                                          \
    extern "C" __global__ void __launch_bounds__((ClusterGemm<kind, groups, tokens, Epilogue::epilogue>::kThreads), 1)   \
        name##_cluster_##groups##x##tokens(const __grid_constant__ kind::Params p) {                                \
        extern __shared__ __align__(1024) uint8_t shared[];                                                      \
        ClusterGemm<kind, groups, tokens, Epilogue::epilogue>(p, shared).run();                                           \
    }

#define CLUSTER_GEMM_EPILOGUES(kind, groups, tokens, results, gated, add_norm) \
    CLUSTER_GEMM_KERNEL(kind, groups, tokens, results, kStore)           \
    CLUSTER_GEMM_KERNEL(kind, groups, tokens, gated, kGated)               \
    CLUSTER_GEMM_KERNEL(kind, groups, tokens, add_norm, kAddNorm)

#define CLUSTER_GEMM_KERNELS(kind, tokens, results, gated, add_norm)   \
    CLUSTER_GEMM_EPILOGUES(kind, 1, tokens, results, gated, add_norm)    \
    CLUSTER_GEMM_EPILOGUES(kind, 2, tokens, results, gated, add_norm)    \
    CLUSTER_GEMM_EPILOGUES(kind, 3, tokens, results, gated, add_norm)
