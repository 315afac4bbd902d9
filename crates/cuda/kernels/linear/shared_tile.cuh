// Tiles of outputs whose inputs several blocks share: who has what, and how their sums meet.
#pragma once
#include "../common/barrier.cuh"
#include "../common/shares.cuh"
#include "params.cuh"

// A stage of inputs of a tile of outputs.
struct Unit {
    uint32_t tile;
    uint32_t stage;

    __device__ Unit(const LinearSurroundings& p, uint32_t number) : tile(number / p.stages), stage(number % p.stages) {}

    __device__ void advance(const LinearSurroundings& p) {
        if (++stage == p.stages) {
            stage = 0;
            ++tile;
        }
    }
};

template <int kOutputs, int kTokens, int kThreads>
struct SharedTile {
    static constexpr int kSums = kTokens / 2;

    static __device__ Shares shares(const LinearSurroundings& p) {
        return Shares((p.outputs + kOutputs - 1) / kOutputs * p.stages, gridDim.x);
    }

    // Sums of a shared tile lie in the order in which threads hold them.
    static __device__ float* partial(const LinearSurroundings& p, uint32_t worker, bool begins) {
        return p.partials + (static_cast<size_t>(worker) * 2 + begins) * kOutputs * kTokens;
    }

    // Leaves sums of a shared tile behind; in the block that finds all stages done, `sums` becomes their sum.
    static __device__ bool join(const LinearSurroundings& p, uint32_t* is_last, uint32_t tile, bool begins, uint32_t done,
                                float (&sums)[kSums]) {
        float* mine = partial(p, blockIdx.x, begins) + threadIdx.x;
#pragma unroll
        for (int i = 0; i < kSums; ++i) __stcg(mine + i * kThreads, sums[i]);
        __threadfence();
        meet(1, kThreads);
        if (threadIdx.x == 0) {
            const bool last = atomicAdd(p.arrivals + tile, done) + done == p.stages;
            if (last) p.arrivals[tile] = 0;
            *is_last = last;
        }
        meet(1, kThreads);
        if (!*is_last) return false;
        __threadfence();
        const uint32_t start = tile * p.stages;
        const uint32_t from = shares(p).owner(start), to = shares(p).owner(start + p.stages - 1);
#pragma unroll
        for (int i = 0; i < kSums; ++i) sums[i] = 0.0f;
        for (uint32_t worker = from; worker <= to; ++worker) {
            const float* part = partial(p, worker, worker == from) + threadIdx.x;
#pragma unroll
            for (int i = 0; i < kSums; ++i) sums[i] += __ldcg(part + i * kThreads);
        }
        return true;
    }
};
