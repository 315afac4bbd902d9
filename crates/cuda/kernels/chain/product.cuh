// A product of one or two rows: a block takes groups of sixteen outputs, its warps share their inputs.
#pragma once
#include "ending.cuh"
#include "slice.cuh"

// Between rows of x in shared memory, so that no two lie in the same banks.
constexpr int kRowGap = 16;

// Pieces of four results that a lane looks for in the mail at once.
constexpr int kAtOnce = 4;

struct ProductShared {
    // What warps have of a group, one sum a lane; of two groups in turn.
    float sums[2][kWarps][32];
};

template <class Weight>
struct ChainProduct {
    using Slice = typename Weight::Slice;
    using Scales = typename Weight::Scales;
    using Scale = typename Weight::Scale;
    static constexpr int kHeld = Weight::kHeld;

    const ChainLink& link;
    const LinearSurroundings& p;
    const ChainRing& ring;
    const ChainMail& mail;
    uint8_t* x;
    ProductShared* shared;
    LateFactors* factors;
    const GroupShare share;
    const uint32_t warp = warp_number();
    const uint32_t lane = threadIdx.x % 32;
    // Of a row of x, and where this lane finds the beginning of its own: columns of products are rows in turn.
    const uint32_t row_bytes;
    const uint32_t inputs;
    typename Weight::Rows rows;

    __device__ ChainProduct(const ChainLink& which, const ChainRing& weights, const ChainMail& post, uint8_t* room,
                            ProductShared* sums, LateFactors* late, const GroupShare& groups)
        : link(which),
          p(which.linear),
          ring(weights),
          mail(post),
          x(room),
          shared(sums),
          factors(late),
          share(groups),
          row_bytes(which.stages * kWarps * Weight::kInputs * 2 + kRowGap),
          inputs(shared_address(room) + (lane & p.rows - 1) * row_bytes + lane / 8 * 16 + warp * Weight::kInputs * 2) {}

    __device__ void run(ChainRing::Place& place) {
        if (share.is_empty()) return;
        Scales next(link, share.begin);
        Scale first = next.find(number(0));
        uint32_t turn = 0;
#pragma unroll 1
        for (uint32_t group = share.begin; group < share.end; ++group, ++turn) {
            const bool ends = turn % kWarps == warp;
            ChainEnding ending(link, mail, *factors);
            if (ends) ending.prepare(group);
            float sums[2][4] = {};
            const Scales scales = next;
            Scale now = first;
            // They come from afar: those of the next group are on their way before they are needed.
            next = Scales(link, group + 1);
            first = next.find(number(0));
            uint32_t stage = 0;
            if (turn == 0) {
                begin(place, scales, now, sums);
                stage = kHeld;
            }
            go_on(place, stage, scales, now, sums);
            share_sums(turn, sums);
            // One warp ends the group while the others go on.
            if (ends) ending.run(group, add_up(turn));
        }
    }

private:
    // The first group. Weights of its first stages wait in registers for the rows, so that the ring has room for more.
    // `now` is the scale of the first one, and then of the stage behind.
    __device__ __forceinline__ void begin(ChainRing::Place& place, const Scales& scales, Scale& now, float (&sums)[2][4]) {
        // Zeros, or registers would count as taken in all links by what a link with fewer stages leaves out.
        Slice held[kHeld] = {};
        Scale known[kHeld + 1] = {now};
#pragma unroll
        for (int stage = 1; stage <= kHeld; ++stage) known[stage] = scales.find(number(stage));
#pragma unroll
        for (int stage = 0; stage < kHeld; ++stage) {
            if (stage >= link.stages) break;
            take(place, held[stage]);
            place.advance(ring.count);
        }
        take_rows();
#pragma unroll
        for (int stage = 0; stage < kHeld; ++stage) {
            if (stage < link.stages) multiply(stage, held[stage], known[stage], sums);
        }
        now = known[kHeld];
    }

    // All stages from `stage` on, of which the scale is known; scales of the next one are on their way meanwhile.
    __device__ __forceinline__ void go_on(ChainRing::Place& place, uint32_t stage, const Scales& scales, Scale scale,
                                          float (&sums)[2][4]) const {
#pragma unroll 1
        for (; stage < link.stages; ++stage, place.advance(ring.count)) {
            Slice slice;
            take(place, slice);
            const Scale next = scales.find(number(stage + 1));
            multiply(stage, slice, scale, sums);
            scale = next;
        }
    }

    // Of this warp's slice of a stage.
    __device__ __forceinline__ uint32_t number(uint32_t stage) const { return stage * kWarps + warp; }

    // This warp's slices of x, with zeros up to the end of the last stage.
    __device__ void take_rows() {
        // Pieces of four inputs: of a slice, and inputs from one piece of a lane to the next.
        constexpr uint32_t kEach = Weight::kInputs / 4, kStages = 32 / kEach, kStep = kStages * kWarps * Weight::kInputs;
        const uint32_t begin = number(lane / kEach) * Weight::kInputs, piece = lane % kEach;
        const uint32_t pieces = link.stages * kEach;
        // Slices are whole: only the last stage may lack some.
        const uint32_t there = number(link.stages - 1) * Weight::kInputs < link.inputs ? pieces : pieces - kEach;
        const uint32_t turns = (there + 31 - lane) / 32;
#pragma unroll 1
        for (uint32_t row = 0; row < p.rows; ++row) {
            uint8_t* to = x + row * row_bytes + begin * 2;
            const auto put = [&](uint32_t turn, uint2 four) {
                rows.put(to + turn * (kStep * 2), row, turn * kStages + lane / kEach, piece, four);
            };
            const uint32_t first = begin + piece * 4;
            if (mail.from_results) {
                const uint64_t* from = mail.from_results + row * kResultWords + first / 2;
                receive<kAtOnce, kStep / 2>(from, turns, mail.from_age, put);
            } else {
                const bf16* from = link.x + static_cast<size_t>(row) * link.x_stride + first;
#pragma unroll 1
                for (uint32_t turn = 0; turn < turns; ++turn) {
                    put(turn, __ldcg(reinterpret_cast<const uint2*>(from + turn * kStep)));
                }
            }
            // Less than a turn is left.
            if (turns * 32 + lane < pieces) put(turns, uint2{});
        }
        __syncwarp();
    }

    // Takes a slice out of the ring once it is there.
    __device__ __forceinline__ void take(const ChainRing::Place& place, Slice& slice) const {
        const uint32_t from = shared_address(ring.stages) + place.stage * kStageBytes + warp * kSliceBytes;
        ring.full[place.stage].wait(place.parity);
        slice.take(from);
        __syncwarp();
        if (lane == 0) ring.empty[place.stage].arrive();
    }

    // Adds what a slice gives with the inputs of its stage.
    __device__ __forceinline__ void multiply(uint32_t stage, const Slice& slice, const Scale& scale,
                                             float (&sums)[2][4]) const {
        slice.multiply(inputs + stage * (kWarps * Weight::kInputs * 2), stage, rows, scale, sums);
    }

    // Leaves what this warp has of a group, one sum a lane, and waits for the others.
    __device__ __forceinline__ void share_sums(uint32_t turn, const float (&sums)[2][4]) {
        const bool upper = lane & 2, odd = lane & 1;
        const float first = upper ? sums[0][2] + sums[1][2] : sums[0][0] + sums[1][0];
        const float second = upper ? sums[0][3] + sums[1][3] : sums[0][1] + sums[1][1];
        shared->sums[turn % 2][warp][lane] = odd ? second : first;
        meet(1, kComputing);
    }

    __device__ __forceinline__ float add_up(uint32_t turn) const {
        float total = 0.0f;
#pragma unroll
        for (int other = 0; other < kWarps; ++other) total += shared->sums[turn % 2][other][lane];
        return total;
    }
};
