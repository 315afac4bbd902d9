// Blocks that multiply tiles of outputs, and blocks of a cluster that share the inputs of one.
//
// A warpgroup multiplies 64 outputs of the weight with all rows of x; which of the two is the first factor, its kind and the
// rows say. A block takes one tile of outputs and a whole multiprocessor. Where there are fewer tiles than multiprocessors,
// blocks of a cluster share the inputs of a tile: each sends its sums to where rows are ended, and ends some of them itself.
#pragma once
#include "../common/cluster.cuh"
#include "../common/mma.cuh"
#include "../common/order.cuh"
#include "../common/ring_place.cuh"
#include "../common/room.cuh"
#include "../common/shares.cuh"
#include "../common/wgmma.cuh"
#include "factors.cuh"
#include "rows.cuh"

// Elements of x, and bytes of a weight's row, that one copy brings.
constexpr int kSlice = 64;
constexpr int kRowBytes = 128;
// Warps that find factors of late norms.
constexpr int kFactorWarps = 3;
constexpr int kMostStages = 24;

// The outputs of a block, by sixty-fours.
struct Span {
    uint32_t first;
    uint32_t count;
};

// What is alike where weights come as boxes: outputs that are not there are zeros, and nothing is asked for ahead.
struct BoxedWeights {
    static constexpr int kGroupBytes = 64 * kRowBytes;
    static constexpr int kTurnsOfOne = 1;
    struct Ahead {};

    template <int kGroups, bool kGated, class Params>
    static __device__ __forceinline__ Span span(const Params& p, uint32_t tile) {
        return {tile * kGroups, kGroups};
    }

    template <class Params>
    static __device__ __forceinline__ void expect(const Params& p) {
        expect_map(&p.weight);
    }

    template <int kGroups, bool kGated, class Params>
    static __device__ __forceinline__ uint32_t bytes(const Params& p, const Span& span) {
        return kGroups * kGroupBytes;
    }

    template <class Team>
    static __device__ __forceinline__ void prepare(const Team& team, Ahead& ahead) {}
};

// `Kind` says what weights are and how a stage of them is fetched and multiplied (`linear_team.cu` has the plainest). Of
// `kThreadsToRelease` threads one says for all that they are done with a stage; `kMayBeSecond`: weights may be the second factor;
// `kTurnsOfOne`: so many warpgroups take turns with the stages of a tile of 64 outputs.
template <class Kind, int kGroups, int kTokens, Ending kEnding>
struct TeamOf {
    using Params = typename Kind::Params;
    static constexpr Ending kEnds = kEnding;
    static constexpr bool kGated = kEnding == Ending::kGated;
    static constexpr int kOutputs = 64 * kGroups;
    static constexpr int kRows = kTokens;
    // Rows of x begin at a multiple of 1024.
    static constexpr int kWeightBytes = (kGroups * Kind::kGroupBytes + 1023) / 1024 * 1024;
    static constexpr int kInputBytes = kTokens * Kind::kInputs * 2;
    static constexpr int kBytes = kWeightBytes + kInputBytes;
    static constexpr int kTurns = kGroups == 1 ? Kind::kTurnsOfOne : 1;
    static constexpr int kConsumers = 128 * kGroups * kTurns;
    static constexpr int kThreads = kConsumers + 128;
    // What barriers and factors take at most is left for them.
    static constexpr int kFit = (kWholeRoom - 1024) / kBytes;
    static constexpr int kStages = kFit < kMostStages ? kFit : kMostStages;

    using Sums = float[kTokens / 2];
    // Rows of x are the first factor: a thread has neighbouring outputs of two rows, and else one output of many rows.
    static constexpr bool kRowsFirst = Kind::kMayBeSecond && kTokens == 64;
    using Rows = RowEnding<kOutputs, kTokens, kConsumers, kEnding>;

    // Floats between the sums of one block and the next, at most.
    static constexpr int kShareGap = 16;

    struct Barriers {
        Barrier full[kStages];
        Barrier empty[kStages];
        // Opens when the factors are there that rows of x lack.
        Barrier found;
        // Opens when the sums of others are there.
        Barrier come;
        alignas(8) float factors[kTokens];
    };
    static_assert(sizeof(Barriers) <= 1024, "fits");
    // So many blocks at most share a tile.
    static constexpr int kMostParts = 8;
    static constexpr int kMostSums = (kTokens * (kOutputs + 8) + kMostParts * kShareGap) * 4;
    static constexpr int kMostReceived = kMostSums / kMostParts * (kMostParts - 1);
    // What warpgroups that took turns leave for the first one.
    static constexpr int kLeft = (kTurns - 1) * kOutputs * kTokens * 4;
    static_assert(kMostSums + kLeft + kMostReceived <= kStages * kBytes, "sums take the place of stages, beside those of others");
    // A stage is given back when the next one has come.
    static_assert(kStages - (kMostReceived + kBytes - 1) / kBytes >= 2, "there is room for the next stage");

    const Params& p;
    uint8_t* ring;
    Barriers* barriers;
    // Which of the blocks that share the inputs of its tile this is, and how many they are: a cluster.
    uint32_t part;
    uint32_t parts;
    // A power of two: rows take turns with blocks.
    uint32_t shift;
    Span span;
    // Of the ring; at its end lie the sums of others.
    uint32_t stages;
    // Stages of inputs.
    uint32_t begin;
    uint32_t end;

    __device__ TeamOf(const Params& params, uint8_t* shared)
        : p(params), ring(shared), barriers(reinterpret_cast<Barriers*>(shared + kStages * kBytes)) {
        part = cluster_rank();
        parts = cluster_size();
        shift = 31 - __clz(parts);
        span = Kind::template span<kGroups, kGated>(p, blockIdx.x / parts);
        const Shares shares(p.stages, parts);
        begin = shares.begin(part);
        end = shares.begin(part + 1);
        // Who takes turns has the same stages of the ring in each round: nobody may miss a phase of a barrier.
        stages = (kStages - (received_bytes() + kBytes - 1) / kBytes) / kTurns * kTurns;
    }

    // The thread among those that have one sum of each output, and which turn it takes.
    static __device__ __forceinline__ uint32_t worker() { return kTurns == 1 ? threadIdx.x : threadIdx.x % (128 * kGroups); }
    static __device__ __forceinline__ uint32_t turn() { return kTurns == 1 ? 0 : threadIdx.x / (128 * kGroups); }

    // Stages may be used again when all threads that multiply are done with them. What lanes of a warp have read of one was
    // multiplied by all of them together, and that was waited for, so one may say it for the others.
    __device__ __forceinline__ void release(uint32_t slot) const {
        if (threadIdx.x % Kind::kThreadsToRelease == 0) barriers->empty[slot].arrive();
    }

    __device__ void run() const {
        begin_run();
        if (threadIdx.x >= kConsumers) {
            const uint32_t warp = (threadIdx.x - kConsumers) / 32;
            if (warp > 0) {
                find_late_factors(warp - 1);
            } else {
                produce();
            }
        } else {
            consume();
        }
    }

protected:
    // Barriers for all, and the word for the kernel behind.
    __device__ __forceinline__ void begin_run() const {
        if (threadIdx.x == 0) {
#pragma unroll 1
            for (int i = 0; i < kStages; ++i) {
                barriers->full[i].init(1);
                barriers->empty[i].init(128 * span.count / Kind::kThreadsToRelease);
            }
            barriers->found.init(kFactorWarps * kFinders);
            barriers->come.init(1);
            publish_barriers();
            barriers->come.expect(received_bytes());
        }
        if (threadIdx.x == kConsumers) {
            Kind::expect(p);
            expect_map(&p.x);
        }
        __syncthreads();
        if (parts > 1) greet_cluster();
        if (!p.holds_back) let_successor_begin();
    }

    __device__ __forceinline__ void find_late_factors(uint32_t warp) const {
        if (kGated && !p.squares) fill_factors<kFactorWarps, kTokens>(barriers->factors, warp);
        wait_for_predecessor();
        if (kEnding != Ending::kOnward && p.squares) find_factors<kFactorWarps>(p, barriers->factors, warp, part, parts);
        tell_found(barriers->found);
    }

    __device__ void fetch_weights(uint32_t slot, const Span& from, uint32_t stage) const {
        Barrier* full = &barriers->full[slot];
        full->expect(Kind::template bytes<kGroups, kGated>(p, from) + kInputBytes);
        Kind::template fetch<kGroups, kGated>(p, ring + slot * kBytes, full, from, stage);
    }

    __device__ void fetch_x(uint32_t slot, uint32_t stage) const {
#pragma unroll
        for (int slice = 0; slice < Kind::kInputs / kSlice; ++slice) {
            copy_box(ring + slot * kBytes + kWeightBytes + slice * kTokens * kSlice * 2, &p.x, &barriers->full[slot],
                     stage * Kind::kInputs + slice * kSlice, 0);
        }
    }

private:
    // Sums of the rows that one block ends. They are put in the place of stages, block by block; what others send comes to
    // the end of the ring. Rows and shares have gaps between them, so that what a warp puts at once goes to different banks.
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

    // One thread of a warp keeps the ring full.
    __device__ void produce() const {
        const bool leads = threadIdx.x % 32 == 0;
        const uint32_t count = end - begin, early = min(count, stages);
        if (leads) {
#pragma unroll 1
            for (uint32_t i = 0; i < early; ++i) fetch_weights(i, span, begin + i);
        }
        __syncwarp();
        wait_for_predecessor();
        if (p.holds_back) let_successor_begin();
        if (!leads) return;
#pragma unroll 1
        for (uint32_t i = 0; i < early; ++i) fetch_x(i, begin + i);
        Place place;
#pragma unroll 1
        for (uint32_t i = early; i < count; ++i, place.advance(stages)) {
            barriers->empty[place.stage].wait(place.parity);
            fetch_weights(place.stage, span, begin + i);
            fetch_x(place.stage, begin + i);
        }
    }

    // Two that take turns share out their sums: each has those of half of the outputs in the end. A gate and its factor are in both
    // halves, so there the first one has all.
    static constexpr bool kHalved = kTurns > 1 && !kGated;

    // What one leaves for the other lies behind the place of sums; nobody reads stages any more.
    __device__ __forceinline__ void add_turns(Sums& sums) const {
        static_assert(kTurns <= 2, "one leaves sums, one takes them");
        meet(1, kConsumers);
        if (turn() == 1) {
            leave_half<0>(sums);
            if (!kHalved) leave_half<1>(sums);
        } else if (kHalved) {
            leave_half<1>(sums);
        }
        meet(1, kConsumers);
        if (turn() == 0) {
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

    // Sums are put by who ends their rows: of eight rows, blocks take turns, and a thread has sums of one, or of two.
    __device__ __forceinline__ void put(const Sums& sums) const {
        if constexpr (kRowsFirst) {
            put_neighbours(sums);
        } else if constexpr (!kHalved) {
            if (turn() == 0) put_columns<true, true>(sums);
        } else if (turn() == 0) {
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

    // Of a thread's two outputs the first, the second, or both.
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

    // A thread for each other block sends what that one ends; then what others sent is there.
    __device__ __forceinline__ void exchange() const {
        const uint32_t to = threadIdx.x;
        if (to < parts && to != part) {
            const uint32_t place = address_in(to, shared_address(received(part, to)));
            copy_there(place, share(to), share_floats() * 4, address_in(to, shared_address(&barriers->come)));
        }
        barriers->come.wait(0);
        greet_cluster();
    }

    // Gates and their factors, eight of each in turn, out of registers: no other thread is needed. All warps do this at once, and
    // nothing else, so every instruction counts.
    __device__ __forceinline__ void gate(const Sums& sums) const {
        barriers->found.wait(0);
        if constexpr (kRowsFirst) {
            gate_neighbours(sums);
        } else {
            gate_columns(sums);
        }
    }

    // A thread has those of one result, of two neighbouring rows in eight. They change places with others of the warp, so that
    // it writes two neighbouring results.
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
            const uint32_t turned = transpose_matrix(*reinterpret_cast<const uint32_t*>(&pair));
            if (i * 4 + lane / 4 < p.rows) *reinterpret_cast<uint32_t*>(to) = turned;
        }
    }

    // A thread has those of two neighbouring results, of two rows.
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
        constexpr bool kEndsLayer = kEnding == Ending::kOnward;
        if (worker() / 128 >= span.count) {
            wait_for_predecessor();
            return;
        }
        Sums sums = {};
        typename Rows::Ahead ahead;
        const Rows rows(p, span.first * 64);
        const TileSums tile_sums{share(part), received(0, part), part, parts, share_floats(), row_floats()};
        rows.prepare(ahead);
        typename Kind::Ahead weights_ahead;
        Kind::prepare(*this, weights_ahead);
        wait_for_predecessor();
        if constexpr (kEndsLayer) rows.load_residuals(tile_sums, Rows::first_number(), ahead);
        Place place{turn()};
        Kind::multiply(*this, place, weights_ahead, sums);
        if constexpr (kTurns > 1) add_turns(sums);
        if constexpr (kGated) {
            if (parts == 1) {
                if (turn() == 0) gate(sums);
                return;
            }
        }
        if (parts > 1) wait_for_cluster();
        // Nothing is on its way any more, but other warpgroups may still read the stages.
        if constexpr (kTurns == 1) meet(1, kConsumers);
        put(sums);
        publish_shared();
        meet(1, kConsumers);
        if (parts > 1) exchange();
        const bool late = !kEndsLayer && p.squares;
        if (late) barriers->found.wait(0);
        rows.run(tile_sums, late ? barriers->factors : nullptr, ahead);
        // What was sent lies here until the others have seen it.
        if (parts > 1) wait_for_cluster();
    }
};

// Kernels of a kind of weights: for 64 to 192 outputs and so many rows, with every ending; names begin as given.
#define TEAM_KERNEL(kind, groups, tokens, name, ending)                                                          \
    extern "C" __global__ void __launch_bounds__((TeamOf<kind, groups, tokens, Ending::ending>::kThreads), 1)   \
        name##_team_##groups##x##tokens(const __grid_constant__ kind::Params p) {                                \
        extern __shared__ __align__(1024) uint8_t shared[];                                                      \
        TeamOf<kind, groups, tokens, Ending::ending>(p, shared).run();                                           \
    }

#define TEAM_ENDINGS(kind, groups, tokens, results, gated, onward) \
    TEAM_KERNEL(kind, groups, tokens, results, kResults)           \
    TEAM_KERNEL(kind, groups, tokens, gated, kGated)               \
    TEAM_KERNEL(kind, groups, tokens, onward, kOnward)

#define TEAM_KERNELS(kind, tokens, results, gated, onward)   \
    TEAM_ENDINGS(kind, 1, tokens, results, gated, onward)    \
    TEAM_ENDINGS(kind, 2, tokens, results, gated, onward)    \
    TEAM_ENDINGS(kind, 3, tokens, results, gated, onward)
