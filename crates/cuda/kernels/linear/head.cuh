// Heads of which only the largest result of each row counts: blocks go from tile to tile, the next one's stages are on their way
// while one ends, and no row of results is written.
#pragma once
#include "../common/registers.cuh"
#include "largest.cuh"
#include "team.cuh"

// Of a kind of weights whose tiles one warpgroup each multiplies, as the first factor.
template <class Kind, int kGroups, int kTokens>
struct HeadOf : TeamOf<Kind, kGroups, kTokens, Ending::kResults> {
    using Team = TeamOf<Kind, kGroups, kTokens, Ending::kResults>;
    using Team::barriers, Team::p, Team::span, Team::stages;
    static_assert(Team::kTurns == 1 && !Team::kRowsFirst, "a thread has outputs of many rows");

    using Largest = LargestOfBlock<kTokens, 4 * kGroups>;
    using Mine = LargestOfThread<kTokens>;
    Largest* largest;
    uint32_t tiles;

    // Registers of threads that multiply, and of the others.
    static constexpr int kMany = 152, kFew = 56;
    static_assert(kMany * Team::kConsumers + kFew * 128 <= 65536, "a multiprocessor has no more");

    static_assert(sizeof(Largest) <= Team::kStages * Team::kBytes, "keys take the place of stages");

    __device__ HeadOf(const typename Team::Params& params, uint8_t* shared)
        : Team(params, shared),
          largest(reinterpret_cast<Largest*>(shared)),
          tiles((params.outputs + Team::kOutputs - 1) / Team::kOutputs) {}

    __device__ void run() {
        Team::begin_run();
        if (threadIdx.x < Team::kConsumers) {
            take_registers<kMany>();
            consume_tiles();
            return;
        }
        give_up_registers<kFew>();
        if (threadIdx.x < Team::kConsumers + 32) {
            produce_tiles();
        } else {
            Team::find_late_factors((threadIdx.x - Team::kConsumers) / 32 - 1);
        }
    }

private:
    __device__ __forceinline__ Span span_of(uint32_t tile) const { return Kind::template span<kGroups, false>(p, tile); }

    // Stages of this block's tiles, one after the other.
    struct Work {
        uint32_t tile;
        uint32_t stage = 0;

        __device__ __forceinline__ void advance(uint32_t all) {
            if (++stage < all) return;
            stage = 0;
            tile += gridDim.x;
        }
    };

    __device__ void produce_tiles() const {
        const bool leads = threadIdx.x % 32 == 0;
        const uint32_t mine = (tiles - blockIdx.x + gridDim.x - 1) / gridDim.x, count = mine * p.stages, early = min(count, stages);
        Work work{blockIdx.x};
        if (leads) {
#pragma unroll 1
            for (uint32_t i = 0; i < early; ++i, work.advance(p.stages)) Team::fetch_weights(i, span_of(work.tile), work.stage);
        }
        __syncwarp();
        wait_for_predecessor();
        if (!leads) return;
#pragma unroll 1
        for (uint32_t i = 0; i < early; ++i) Team::fetch_x(i, i % p.stages);
        Place place;
#pragma unroll 1
        for (uint32_t i = early; i < count; ++i, place.advance(stages), work.advance(p.stages)) {
            barriers->empty[place.stage].wait(place.parity);
            Team::fetch_weights(place.stage, span_of(work.tile), work.stage);
            Team::fetch_x(place.stage, work.stage);
        }
    }

    __device__ void consume_tiles() {
        typename Kind::Ahead ahead, next;
        Kind::prepare(*this, ahead);
        wait_for_predecessor();
        Place place;
        Mine mine;
#pragma unroll 1
        for (uint32_t tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
            span = span_of(min(tile + gridDim.x, tiles - 1));
            Kind::prepare(*this, next);
            span = span_of(tile);
            typename Team::Sums sums = {};
            Kind::multiply(*this, place, ahead, sums);
            // The last stage too: what follows is the next tile's.
            Team::release((place.stage == 0 ? stages : place.stage) - 1);
            take(sums, mine);
            ahead = next;
        }
        // Nobody reads stages any more.
        meet(1, Team::kConsumers);
        mine.show(largest->keys[threadIdx.x / 32]);
        meet(1, Team::kConsumers);
        largest->tell(p);
    }

    __device__ __forceinline__ void take(const typename Team::Sums& sums, Mine& mine) const {
        if (p.squares) barriers->found.wait(0);
        const uint32_t first = span.first * 64 + threadIdx.x / 32 * 16 + threadIdx.x % 32 / 4;
        mine.take(sums, p.squares ? barriers->factors : nullptr, first, p.outputs);
    }
};

#define HEAD_KERNEL(kind, groups, tokens, name)                                                                 \
    extern "C" __global__ void __launch_bounds__((HeadOf<kind, groups, tokens>::Team::kThreads), 1)            \
        name##_##tokens(const __grid_constant__ kind::Params p) {                                               \
        extern __shared__ __align__(1024) uint8_t shared[];                                                     \
        HeadOf<kind, groups, tokens>(p, shared).run();                                                          \
    }
