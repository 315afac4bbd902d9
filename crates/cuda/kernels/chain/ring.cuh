// The ring that weights, keys and values pass through on their way to the warps that compute.
#pragma once
#include "../common/order.cuh"
#include "../common/ring_place.cuh"
#include "link.cuh"

constexpr int kWarps = 8;
constexpr int kComputing = 32 * kWarps;
constexpr int kOutputs = 16;
// Inputs of a slice of bf16.
constexpr int kSlice = 64;
// Of a weight: a slice for every warp, 128 bytes an output.
constexpr int kSliceBytes = kOutputs * 128;
constexpr int kStageBytes = kWarps * kSliceBytes;
constexpr int kMostStages = 16;
constexpr uint32_t kAllLanes = 0xffffffffu;

// Of this warp. So the compiler knows that it is the same in all lanes, and makes no code for lanes that part from each other.
__device__ __forceinline__ uint32_t warp_number() { return __shfl_sync(kAllLanes, threadIdx.x / 32, 0); }

// Divides numbers below 2²⁰ without a division: half of one keeps quotients off the border.
struct Inverse {
    float value;

    __device__ __forceinline__ explicit Inverse(uint32_t of) : value(__fdividef(1.0f, static_cast<float>(of))) {}

    __device__ __forceinline__ uint32_t of(uint32_t number) const {
        return static_cast<uint32_t>((static_cast<float>(number) + 0.5f) * value);
    }
};

struct ChainRing {
    uint8_t* stages;
    Barrier* full;
    Barrier* empty;
    uint32_t count;

    // Parities of those who fill it are one turn ahead.
    using Place = ::Place;

    __device__ __forceinline__ uint8_t* at(const Place& place) const { return stages + place.stage * kStageBytes; }
};

// The groups of outputs that a block takes: as many as any other, or one more.
struct GroupShare {
    uint32_t begin;
    uint32_t end;

    // 2³¹ divided by the number of blocks, rounded up, which a division takes long to find. With at most 2¹⁶ groups and 181
    // blocks what is found with it is exact.
    __device__ __forceinline__ static uint32_t inverse() { return 0x7fffffffu / gridDim.x + 1; }

    __device__ __forceinline__ GroupShare(uint32_t groups, uint32_t inverse)
        : begin(__umulhi(2 * blockIdx.x * groups, inverse)), end(__umulhi(2 * (blockIdx.x + 1) * groups, inverse)) {}

    __device__ __forceinline__ bool is_empty() const { return begin == end; }
};
