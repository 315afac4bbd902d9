// The shared-memory ring of tiles (weights, keys, values) between the producer warp and the computing warps.
#pragma once
#include "../common/order.cuh"
#include "../common/pipeline_state.cuh"
#include "stage.cuh"

constexpr int kWarps = 8;
constexpr int kComputing = 32 * kWarps;
constexpr int kOutputs = 16;
// Inputs of a warp's slice of bf16.
constexpr int kSlice = 64;
// Bytes of a slice: sixteen outputs, 128 bytes each. A tile has one slice per warp.
constexpr int kSliceBytes = kOutputs * 128;
constexpr int kTileBytes = kWarps * kSliceBytes;
constexpr int kMaxTiles = 16;
constexpr uint32_t kAllLanes = 0xffffffffu;

// This warp's number. The shuffle shows the compiler that it is warp-uniform, which avoids divergent code.
__device__ __forceinline__ uint32_t warp_number() { return __shfl_sync(kAllLanes, threadIdx.x / 32, 0); }

// Exact division of numbers below 2²⁰ by multiplication; adding one half keeps quotients off the border.
struct Inverse {
    float value;

    __device__ __forceinline__ explicit Inverse(uint32_t of) : value(__fdividef(1.0f, static_cast<float>(of))) {}

    __device__ __forceinline__ uint32_t of(uint32_t number) const {
        return static_cast<uint32_t>((static_cast<float>(number) + 0.5f) * value);
    }
};

struct Ring {
    uint8_t* tiles;
    Barrier* full;
    Barrier* empty;
    uint32_t count;

    __device__ __forceinline__ uint8_t* at(const PipelineState& place) const { return tiles + place.index * kTileBytes; }
};

// The groups of outputs of a block. Shares differ by at most one group.
struct GroupShare {
    uint32_t begin;
    uint32_t end;

    // 2³¹ divided by the number of blocks, rounded up; computed once, since division is slow. Shares are exact with at most 2¹⁶
    // groups and 181 blocks.
    __device__ __forceinline__ static uint32_t inverse() { return 0x7fffffffu / gridDim.x + 1; }

    __device__ __forceinline__ GroupShare(uint32_t groups, uint32_t inverse)
        : begin(__umulhi(2 * blockIdx.x * groups, inverse)), end(__umulhi(2 * (blockIdx.x + 1) * groups, inverse)) {}

    __device__ __forceinline__ bool is_empty() const { return begin == end; }
};
