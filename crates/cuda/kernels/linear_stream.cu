// Products with few rows: out = x · weightᵀ + bias, every weight read once, at the speed of memory.
//
// Weights are the first factor, 64 outputs a tile, and rows of x the second: from 16 to 64 columns of the product. A grid
// of a fixed size takes equal shares of all (tile of outputs, stage of inputs) pairs; tiles that are shared are added in
// order of the inputs by the block that ends last. A block takes half a multiprocessor: the next product fetches its
// first stages beside the end of this one, before the kernel between them has made its inputs.
//
// Small kernels between products cost more than their work, so products do that work: rows of x may lack the factor of
// their norm, results may be gated, and the product that ends a layer adds to the residual.
#include "common/order.cuh"
#include "common/reduce.cuh"
#include "common/room.cuh"
#include "common/wgmma.cuh"
#include "linear/finish.cuh"
#include "linear/shared_tile.cuh"

constexpr int kInputs = 128;
constexpr int kSlice = 64;

// Outputs of a tile.
constexpr int kOutputs = 64;
// Warps that find factors of late norms.
constexpr int kFactorWarps = 3;

template <int kTokens, Ending kEnding>
struct Stream {
    static constexpr int kWeightBytes = kOutputs * kInputs * 2;
    static constexpr int kBytes = kWeightBytes + kTokens * kInputs * 2;
    static constexpr int kFit = (kHalfRoom - 2048) / kBytes;
    static constexpr int kStages = kFit < 12 ? kFit : 12;
    static constexpr int kThreads = 160 + 32 * kFactorWarps;
    static constexpr int kSums = kTokens / 2;

    using Tile = SharedTile<kOutputs, kTokens, 128>;

    struct Barriers {
        Barrier full[kStages];
        Barrier empty[kStages];
        uint32_t last;
        Factors<kTokens> factors;
    };
    static_assert(kStages * kBytes + sizeof(Barriers) <= kHalfRoom, "fits");

    static __device__ void fetch_weights(const LinearParams& p, uint8_t* to, Barrier* full, const Unit& unit) {
        full->expect(kBytes);
        for (int slice = 0; slice < kInputs / kSlice; ++slice) {
            uint8_t* place = to + slice * kOutputs * kSlice * 2;
            const int input = unit.stage * kInputs + slice * kSlice;
            if constexpr (kEnding == Ending::kGated) {
                // Eight gates, their eight factors, and so on.
                copy_box(place, &p.weight, full, input, 0, 0, unit.tile * (kOutputs / 16));
            } else {
                copy_box(place, &p.weight, full, input, unit.tile * kOutputs);
            }
        }
    }

    static __device__ void fetch_x(const LinearParams& p, uint8_t* to, Barrier* full, const Unit& unit) {
        for (int slice = 0; slice < kInputs / kSlice; ++slice) {
            copy_box(to + kWeightBytes + slice * kTokens * kSlice * 2, &p.x, full, unit.stage * kInputs + slice * kSlice, 0);
        }
    }

    // One thread keeps the ring full.
    static __device__ void produce(const LinearParams& p, uint8_t* ring, Barriers* barriers, uint32_t begin, uint32_t end) {
        expect_map(&p.weight);
        expect_map(&p.x);
        const uint32_t count = end - begin, early = min(count, static_cast<uint32_t>(kStages));
        Unit ahead(p, begin), unit(p, begin);
        for (uint32_t i = 0; i < early; ++i, ahead.advance(p)) {
            fetch_weights(p, ring + i * kBytes, &barriers->full[i], ahead);
        }
        if (early == count) let_successor_begin();
        wait_for_predecessor();
        for (uint32_t i = 0; i < early; ++i, unit.advance(p)) fetch_x(p, ring + i * kBytes, &barriers->full[i], unit);
        RingPlace<kStages> place;
        for (uint32_t i = early; i < count; ++i, unit.advance(p), place.advance()) {
            barriers->empty[place.stage].wait(place.parity);
            fetch_weights(p, ring + place.stage * kBytes, &barriers->full[place.stage], unit);
            fetch_x(p, ring + place.stage * kBytes, &barriers->full[place.stage], unit);
        }
        // What the next product fetches early fills the gap between this one's last stage and its own first results;
        // begun sooner, it would only take turns with this one.
        let_successor_begin();
    }

    static __device__ void consume(const LinearParams& p, uint8_t* ring, Barriers* barriers, uint32_t begin, uint32_t end) {
        const uint32_t base = shared_address(ring);
        RingPlace<kStages> place;
        float sums[kSums] = {};
        Unit unit(p, begin);
        wait_for_predecessor();
        while (begin < end) {
            // The part of a tile that is this block's.
            const uint32_t tile = unit.tile, first = unit.stage, last = min(p.stages, first + end - begin);
            uint32_t before = 0;
            for (; unit.stage < last; ++unit.stage, place.advance()) {
                const uint64_t weights = matrix_along(base + place.stage * kBytes);
                const uint64_t x = matrix_along(base + place.stage * kBytes + kWeightBytes);
                barriers->full[place.stage].wait(place.parity);
                pin(sums);
                begin_products();
#pragma unroll
                for (int step = 0; step < kInputs / 16; ++step) {
                    const uint32_t slice = step / 4, within = step % 4 * 32;
                    multiply_shared<kTokens>(sums, moved(weights, slice * kOutputs * kSlice * 2 + within),
                                             moved(x, slice * kTokens * kSlice * 2 + within),
                                             unit.stage != first || step != 0);
                }
                commit_products();
                // The stage before is done when at most this one is not.
                wait_products<1>();
                if (threadIdx.x == 0 && unit.stage != first) barriers->empty[before].arrive();
                before = place.stage;
            }
            wait_products<0>();
            pin(sums);
            if (threadIdx.x == 0) barriers->empty[before].arrive();
            const bool whole = first == 0 && last == p.stages;
            if (whole || Tile::join(p, &barriers->last, tile, first == 0, last - first, sums)) {
                const uint32_t output = tile * kOutputs + threadIdx.x / 32 * 16;
                Finish<kTokens>::template run<kEnding>(p, &barriers->factors, output, sums);
            }
            begin += last - first;
            unit.stage = 0;
            ++unit.tile;
        }
    }

    static __device__ void run(const LinearParams& p) {
        extern __shared__ __align__(1024) uint8_t shared[];
        uint8_t* ring = shared;
        Barriers* barriers = reinterpret_cast<Barriers*>(shared + kStages * kBytes);
        if (threadIdx.x == 0) {
            for (int i = 0; i < kStages; ++i) {
                barriers->full[i].init(1);
                barriers->empty[i].init(1);
            }
            barriers->factors.found.init(kFactorWarps);
            publish_barriers();
        }
        __syncthreads();
        const uint32_t begin = Tile::shares(p).begin(blockIdx.x), end = Tile::shares(p).begin(blockIdx.x + 1);
        if (threadIdx.x >= 160) {
            wait_for_predecessor();
            if (p.squares) find_factors<kTokens, kFactorWarps>(p, &barriers->factors, threadIdx.x / 32 - 5);
        } else if (threadIdx.x >= 128) {
            if (threadIdx.x % 32 == 0) produce(p, ring, barriers, begin, end);
        } else {
            consume(p, ring, barriers, begin, end);
        }
    }
};

#define LINEAR_STREAM(tokens, name, ending)                                                                        \
    extern "C" __global__ void __launch_bounds__((Stream<tokens, Ending::ending>::kThreads), 2) name##_##tokens(   \
        const __grid_constant__ LinearParams p) {                                                                  \
        Stream<tokens, Ending::ending>::run(p);                                                                    \
    }

#define LINEAR_STREAMS(tokens)                       \
    LINEAR_STREAM(tokens, linear_stream, kResults)   \
    LINEAR_STREAM(tokens, linear_gated, kGated)      \
    LINEAR_STREAM(tokens, linear_onward, kOnward)

LINEAR_STREAMS(16)
LINEAR_STREAMS(32)
LINEAR_STREAMS(64)
