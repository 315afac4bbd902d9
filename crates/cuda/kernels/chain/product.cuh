// A product of one or two rows: a block takes groups of sixteen outputs, its warps share their inputs.
#pragma once
#include "ending.cuh"
#include "slice.cuh"

// Between rows of x in shared memory, so that no two lie in the same banks.
constexpr int kRowGap = 16;

// Pieces of four results that a lane looks for in the mail at once.
constexpr int kAtOnce = 4;

// Groups that a block ends at once, each by another warp.
constexpr uint32_t kBatch = 3;

struct ProductShared {
    // What warps have of groups, one sum a lane; of two batches in turn.
    float sums[2][kBatch][kWarps][32];
};

template <class Weight>
struct ChainProduct {
    using Slice = typename Weight::Slice;
    using Scales = typename Weight::Scales;
    using Scale = typename Weight::Scale;
    using Places = typename Weight::Places;
    using Sums = float[4][4];
    static constexpr uint32_t kHeld = Weight::kHeld;

    const ChainLink& link;
    const ChainRing& ring;
    const ChainMail& mail;
    uint8_t* x;
    ProductShared* shared;
    LateFactors* factors;
    const GroupShare share;
    const uint32_t warp;
    const uint32_t lane = threadIdx.x % 32;
    // Of the link, whose words would be read again after every wait.
    const uint32_t stages;
    const uint32_t rows;
    // Of a row of x, and where this lane finds the beginning of its own: columns of products are rows in turn.
    const uint32_t row_bytes;
    const uint32_t inputs;
    typename Weight::Rows scaled;

    __device__ ChainProduct(const ChainLink& which, const ChainRing& weights, const ChainMail& post, uint8_t* room,
                            ProductShared* sums, LateFactors* late, const GroupShare& groups, uint32_t number)
        : link(which),
          ring(weights),
          mail(post),
          x(room),
          shared(sums),
          factors(late),
          share(groups),
          warp(number),
          stages(which.stages),
          rows(which.linear.rows),
          row_bytes(stages * kWarps * Weight::kInputs * 2 + kRowGap),
          inputs(shared_address(room) + (lane & rows - 1) * row_bytes + lane / 8 * 16 + warp * Weight::kInputs * 2) {}

    __device__ void run(ChainRing::Place& place) {
        if (share.is_empty()) return;
        Scales scales(link, share.begin);
        Scale coming[kHeld];
        find(scales, 0, coming);
        bool lacks_rows = true;
        uint32_t group = share.begin, turn = 0;
#pragma unroll 1
        for (; group < share.end; ++turn) {
            const uint32_t batch = group, end = min(batch + kBatch, share.end);
            // A warp ends a group while the others go on.
            const uint32_t mine = batch + (warp - turn * kBatch) % kWarps;
            ChainEnding ending(link, mail, *factors);
            typename Weight::Corrections corrections;
            if (mine < end) {
                ending.prepare(mine);
                corrections.prepare(link, mine);
            }
            float(*told)[kWarps][32] = shared->sums[turn % 2];
#pragma unroll 1
            for (; group < end; ++group, ++told) {
                Sums sums = {};
                const Places places(link.kind, group, warp);
#pragma unroll 1
                for (uint32_t stage = 0; stage < stages; stage += kHeld) {
                    const uint32_t count = min(stages - stage, kHeld);
                    Slice held[kHeld];
                    hold(place, count, places, held);
                    Scale now[kHeld];
#pragma unroll
                    for (uint32_t i = 0; i < kHeld; ++i) now[i] = coming[i];
                    // They come from afar: the next ones are on their way before they are needed.
                    const bool ends = stage + kHeld >= stages;
                    if (ends) scales = Scales(link, group + 1);
                    find(scales, ends ? 0 : stage + kHeld, coming);
                    // The first weights wait in registers for the rows, so that the ring has room for more.
                    if (lacks_rows) take_rows();
                    lacks_rows = false;
                    multiply(stage, count, held, now, sums);
                }
                tell(*told, sums);
            }
            meet(1, kComputing);
            if (mine >= end) continue;
            const float sum = add_up(shared->sums[turn % 2][mine - batch]);
            ending.run(mine, corrections.add(sum, x + (lane & rows - 1) * row_bytes));
        }
    }

private:
    // Of this warp's slice of a stage.
    __device__ __forceinline__ uint32_t number(uint32_t stage) const { return stage * kWarps + warp; }

    // Scales of some stages from one on.
    __device__ __forceinline__ void find(const Scales& scales, uint32_t stage, Scale (&to)[kHeld]) const {
#pragma unroll
        for (uint32_t i = 0; i < kHeld; ++i) to[i] = scales.find(number(stage + i));
    }

    // Takes this warp's slices of so many stages out of the ring: lanes wait for one each, and give it back. All of them are
    // read before the first is used, as one by itself takes almost as long.
    __device__ __forceinline__ void hold(ChainRing::Place& place, uint32_t count, const Places& places, Slice (&held)[kHeld]) const {
        ChainRing::Place mine = place;
        mine.advance(min(lane, count - 1), ring.count);
        ring.full[mine.stage].wait(mine.parity);
        __syncwarp();
        uint32_t stage = place.stage;
#pragma unroll
        for (uint32_t i = 0; i < kHeld; ++i) {
            held[i].take(ring.stages + stage * kStageBytes, places, warp);
            // Where there are fewer stages, the last one is read again.
            const uint32_t next = stage + 1 == ring.count ? 0 : stage + 1;
            stage = i + 1 < count ? next : stage;
        }
        __syncwarp();
        if (lane < count) ring.empty[mine.stage].arrive();
        place.advance(count, ring.count);
    }

    // This warp's slices of x, with zeros up to the end of the last stage.
    __device__ void take_rows() {
        // Pieces of four inputs: of a slice, and inputs from one piece of a lane to the next.
        constexpr uint32_t kEach = Weight::kInputs / 4, kStages = 32 / kEach, kStep = kStages * kWarps * Weight::kInputs;
        const uint32_t begin = number(lane / kEach) * Weight::kInputs, first = begin + lane % kEach * 4;
        const auto turns_of = [](uint32_t all, uint32_t from) { return (all + kStep - 1 - from) / kStep; };
        // Slices are whole: only the last stage may lack some. The first lane has most.
        const uint32_t there = link.inputs, turns = turns_of(there, first), most = turns_of(there, warp * Weight::kInputs);
        const bool pads = turns < turns_of(stages * kWarps * Weight::kInputs, first);
#pragma unroll 1
        for (uint32_t row = 0; row < rows; ++row) {
            uint8_t* to = x + row * row_bytes + begin * 2;
            const auto put = [&](uint32_t turn, uint2 four) {
                scaled.put(to + turn * (kStep * 2), row, turn * kStages + lane / kEach, lane % kEach, four);
            };
            if (mail.from_results) {
                const uint64_t* from = mail.from_results + row * kResultWords + first / 2;
                receive<kAtOnce, kStep / 2>(from, turns, most, mail.from_age, put);
            } else {
                const bf16* from = link.x + static_cast<size_t>(row) * link.x_stride + first;
#pragma unroll 1
                for (uint32_t turn = 0; turn < turns; ++turn) {
                    put(turn, __ldcg(reinterpret_cast<const uint2*>(from + turn * kStep)));
                }
            }
            if (pads) put(turns, uint2{});
        }
        __syncwarp();
    }

    // Adds what slices of so many stages from one on give with their inputs.
    __device__ __forceinline__ void multiply(uint32_t stage, uint32_t count, const Slice (&held)[kHeld], const Scale (&scales)[kHeld],
                                             Sums& sums) const {
        constexpr uint32_t kStageInputs = kWarps * Weight::kInputs * 2;
        const uint32_t from = inputs + stage * kStageInputs;
        typename Weight::Inputs some[kHeld];
#pragma unroll
        for (uint32_t i = 0; i < kHeld; ++i) {
            if (i < count) some[i].load(from + i * kStageInputs);
        }
#pragma unroll
        for (uint32_t i = 0; i < kHeld; ++i) {
            if (i < count) held[i].multiply(some[i], stage + i, scaled, scales[i], sums);
        }
    }

    // Leaves what this warp has of a group, one sum a lane.
    __device__ __forceinline__ void tell(float (&to)[kWarps][32], const Sums& sums) const {
        float some[4];
#pragma unroll
        for (int i = 0; i < 4; ++i) some[i] = sums[0][i] + sums[1][i] + (sums[2][i] + sums[3][i]);
        const bool upper = lane & 2, odd = lane & 1;
        const float first = upper ? some[2] : some[0], second = upper ? some[3] : some[1];
        to[warp][lane] = odd ? second : first;
    }

    __device__ __forceinline__ float add_up(const float (&told)[kWarps][32]) const {
        float total = 0.0f;
#pragma unroll
        for (int other = 0; other < kWarps; ++other) total += told[other][lane];
        return total;
    }
};
