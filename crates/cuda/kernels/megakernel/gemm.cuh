// A GEMM of one or two rows: a block takes groups of sixteen outputs, its warps split K.
#pragma once
#include "epilogue.cuh"
#include "slice.cuh"

// Bytes between rows of x in shared memory, so that they start in different banks.
constexpr int kRowGap = 16;

// Message vectors of four results that a lane polls at once.
constexpr int kAtOnce = 4;

// Groups that a block finishes at once, each by another warp.
constexpr uint32_t kBatch = 3;

struct ProductShared {
    // Partial sums of warps, one sum per lane; double-buffered by batch.
    float sums[2][kBatch][kWarps][32];
};

template <class Weight>
struct StageGemm {
    using Slice = typename Weight::Slice;
    using Scales = typename Weight::Scales;
    using Scale = typename Weight::Scale;
    using Places = typename Weight::Places;
    using Sums = float[4][4];
    static constexpr uint32_t kHeld = Weight::kHeld;

    const Stage& stage;
    const Ring& ring;
    const Messages& messages;
    uint8_t* x;
    ProductShared* shared;
    NormFactors* factors;
    const GroupShare share;
    const uint32_t warp;
    const uint32_t lane = threadIdx.x % 32;
    // Copies of the stage's fields, which would be read again after every wait.
    const uint32_t tiles;
    const uint32_t rows;
    // Bytes of a row of x, and this lane's start in it: MMA columns repeat the rows.
    const uint32_t row_bytes;
    const uint32_t inputs;
    typename Weight::Rows scaled;

    __device__ StageGemm(const Stage& which, const Ring& weights, const Messages& sent, uint8_t* room,
                            ProductShared* sums, NormFactors* norm_factors, const GroupShare& groups, uint32_t number)
        : stage(which),
          ring(weights),
          messages(sent),
          x(room),
          shared(sums),
          factors(norm_factors),
          share(groups),
          warp(number),
          tiles(which.tiles),
          rows(which.linear.rows),
          row_bytes(tiles * kWarps * Weight::kInputs * 2 + kRowGap),
          inputs(shared_address(room) + (lane & rows - 1) * row_bytes + lane / 8 * 16 + warp * Weight::kInputs * 2) {}

    __device__ void run(PipelineState& place) {
        if (share.is_empty()) return;
        Scales scales(stage, share.begin);
        Scale coming[kHeld];
        find(scales, 0, coming);
        bool lacks_rows = true;
        uint32_t group = share.begin, turn = 0;
#pragma unroll 1
        for (; group < share.end; ++turn) {
            const uint32_t batch = group, end = min(batch + kBatch, share.end);
            // One warp finishes a group while the others go on.
            const uint32_t mine = batch + (warp - turn * kBatch) % kWarps;
            StageEpilogue epilogue(stage, messages, *factors);
            typename Weight::Corrections corrections;
            if (mine < end) {
                epilogue.prepare(mine);
                corrections.prepare(stage, mine);
            }
            float(*partials)[kWarps][32] = shared->sums[turn % 2];
#pragma unroll 1
            for (; group < end; ++group, ++partials) {
                Sums sums = {};
                const Places places(stage.kind, group, warp);
#pragma unroll 1
                for (uint32_t tile = 0; tile < tiles; tile += kHeld) {
                    const uint32_t count = min(tiles - tile, kHeld);
                    Slice held[kHeld];
                    hold(place, count, places, held);
                    Scale now[kHeld];
#pragma unroll
                    for (uint32_t i = 0; i < kHeld; ++i) now[i] = coming[i];
                    // Scales come from device memory: they are loaded one iteration ahead.
                    const bool ends = tile + kHeld >= tiles;
                    if (ends) scales = Scales(stage, group + 1);
                    find(scales, ends ? 0 : tile + kHeld, coming);
                    // The first weights wait in registers for the rows, so that the ring has room for more.
                    if (lacks_rows) take_rows();
                    lacks_rows = false;
                    multiply(tile, count, held, now, sums);
                }
                store_partial(*partials, sums);
            }
            named_barrier_sync(1, kComputing);
            if (mine >= end) continue;
            const float sum = add_up(shared->sums[turn % 2][mine - batch]);
            epilogue.run(mine, corrections.add(sum, x + (lane & rows - 1) * row_bytes));
        }
    }

private:
    // Number of this warp's slice of a tile.
    __device__ __forceinline__ uint32_t number(uint32_t tile) const { return tile * kWarps + warp; }

    // Loads the scales of `kHeld` tiles.
    __device__ __forceinline__ void find(const Scales& scales, uint32_t tile, Scale (&to)[kHeld]) const {
#pragma unroll
        for (uint32_t i = 0; i < kHeld; ++i) to[i] = scales.find(number(tile + i));
    }

    // Loads this warp's slices of `count` tiles from the ring into registers. Each lane waits for one tile and releases it. All
    // slices are read before the first is used: loading them one by one takes almost as long each.
    __device__ __forceinline__ void hold(PipelineState& place, uint32_t count, const Places& places, Slice (&held)[kHeld]) const {
        PipelineState mine = place;
        mine.advance(min(lane, count - 1), ring.count);
        ring.full[mine.index].wait(mine.parity);
        __syncwarp();
        uint32_t tile = place.index;
#pragma unroll
        for (uint32_t i = 0; i < kHeld; ++i) {
            held[i].take(ring.tiles + tile * kTileBytes, places, warp);
            // With fewer tiles the last one is read again.
            const uint32_t next = tile + 1 == ring.count ? 0 : tile + 1;
            tile = i + 1 < count ? next : tile;
        }
        __syncwarp();
        if (lane < count) ring.empty[mine.index].arrive();
        place.advance(count, ring.count);
    }

    // This warp's slices of x, zero-padded to the end of the last tile.
    __device__ void take_rows() {
        // Vectors of four inputs: per slice, and the inputs from one vector of a lane to the next.
        constexpr uint32_t kEach = Weight::kInputs / 4, kTiles = 32 / kEach, kStep = kTiles * kWarps * Weight::kInputs;
        const uint32_t begin = number(lane / kEach) * Weight::kInputs, first = begin + lane % kEach * 4;
        const auto turns_of = [](uint32_t all, uint32_t from) { return (all + kStep - 1 - from) / kStep; };
        // Slices are whole, so only the last tile may lack some. The first lane has most.
        const uint32_t there = stage.inputs, turns = turns_of(there, first), most = turns_of(there, warp * Weight::kInputs);
        const bool pads = turns < turns_of(tiles * kWarps * Weight::kInputs, first);
#pragma unroll 1
        for (uint32_t row = 0; row < rows; ++row) {
            uint8_t* to = x + row * row_bytes + begin * 2;
            const auto put = [&](uint32_t turn, uint2 four) {
                scaled.put(to + turn * (kStep * 2), row, turn * kTiles + lane / kEach, lane % kEach, four);
            };
            if (messages.from_results) {
                const uint64_t* from = messages.from_results + row * kResultWords + first / 2;
                receive<kAtOnce, kStep / 2>(from, turns, most, messages.from_epoch, put);
            } else {
                const bf16* from = stage.x + static_cast<size_t>(row) * stage.x_stride + first;
#pragma unroll 1
                for (uint32_t turn = 0; turn < turns; ++turn) {
                    put(turn, __ldcg(reinterpret_cast<const uint2*>(from + turn * kStep)));
                }
            }
            if (pads) put(turns, uint2{});
        }
        __syncwarp();
    }

    // Multiplies `count` slices with their inputs.
    __device__ __forceinline__ void multiply(uint32_t tile, uint32_t count, const Slice (&held)[kHeld], const Scale (&scales)[kHeld],
                                             Sums& sums) const {
        constexpr uint32_t kTileInputs = kWarps * Weight::kInputs * 2;
        const uint32_t from = inputs + tile * kTileInputs;
        typename Weight::Inputs some[kHeld];
#pragma unroll
        for (uint32_t i = 0; i < kHeld; ++i) {
            if (i < count) some[i].load(from + i * kTileInputs);
        }
#pragma unroll
        for (uint32_t i = 0; i < kHeld; ++i) {
            if (i < count) held[i].multiply(some[i], tile + i, scaled, scales[i], sums);
        }
    }

    // Stores this warp's partial sum of a group, one per lane.
    __device__ __forceinline__ void store_partial(float (&to)[kWarps][32], const Sums& sums) const {
        float some[4];
#pragma unroll
        for (int i = 0; i < 4; ++i) some[i] = sums[0][i] + sums[1][i] + (sums[2][i] + sums[3][i]);
        const bool upper = lane & 2, odd = lane & 1;
        const float first = upper ? some[2] : some[0], second = upper ? some[3] : some[1];
        to[warp][lane] = odd ? second : first;
    }

    __device__ __forceinline__ float add_up(const float (&partials)[kWarps][32]) const {
        float total = 0.0f;
#pragma unroll
        for (int other = 0; other < kWarps; ++other) total += partials[other][lane];
        return total;
    }
};
