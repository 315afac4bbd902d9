// Folds weights of bf16 (common/fold.cuh), a unit a warp.
#include "common/bf16.cuh"
#include "common/fold.cuh"
#include "common/hopper.cuh"
#include "common/order.cuh"

struct FoldParams {
    const bf16* weight;
    // Of all units, segment of inputs by segment.
    uint8_t* units;
    uint8_t* heads;
    // By blocks of eight rows, and how many they have. Who has more than there is room for cannot be folded.
    Stray* strays;
    uint32_t* counts;
    uint32_t rows;
    uint32_t inputs;
};

constexpr uint32_t kFoldWarps = 8;
constexpr uint32_t kEach = kUnitInputs / 4;
// Upper bytes without their sign.
constexpr uint32_t kKinds = 128;

__device__ __forceinline__ uint32_t kind_of(uint32_t weight) { return weight >> 8 & (kKinds - 1); }

// The first of the seven neighbouring kinds that cover most weights.
__device__ __forceinline__ uint32_t best_kind(const uint32_t* counts) {
    uint32_t best = 0;
    for (uint32_t first = threadIdx.x % 32; first + kOwn <= kKinds; first += 32) {
        uint32_t covered = 0;
        for (uint32_t i = 0; i < kOwn; ++i) covered += counts[first + i];
        best = max(best, covered << 8 | first);
    }
    return __reduce_max_sync(0xffffffffu, best) & 255;
}

// What a lane has of its unit.
struct Fold {
    uint16_t weights[kEach];
    uint32_t low[kEach / 4] = {};
    uint32_t codes[kEach / 8] = {};

    // Inputs that are not there are zeros to products: any number will do, and that of others needs no place in a table.
    __device__ __forceinline__ void load(const FoldParams& p, uint32_t row, uint32_t first) {
        const bf16* from = p.weight + static_cast<size_t>(row) * p.inputs;
#pragma unroll
        for (uint32_t i = 0; i < kEach; i += 2) {
            const uint32_t column = first + unit_column(threadIdx.x % 32, i);
            const bool is_there = column < p.inputs;
            const uint32_t pair = *reinterpret_cast<const uint32_t*>(from + (is_there ? column : first + threadIdx.x % 4 * 2));
            weights[i] = pair & 0xffff, weights[i + 1] = pair >> 16;
        }
    }

    // The first kind that is not in the table.
    __device__ __forceinline__ uint32_t own_kind(uint32_t kind) const {
        uint32_t own = kKinds;
#pragma unroll
        for (uint32_t i = 0; i < kEach; ++i) {
            if (own == kKinds && kind_of(weights[i]) - kind >= kOwn) own = kind_of(weights[i]);
        }
        return own;
    }

    __device__ __forceinline__ void put(uint32_t number, uint32_t weight, uint32_t code) {
        const uint32_t step = number / 4, which = number % 4;
        low[step] |= (weight & 255) << (which * 8);
        codes[step / 2] |= code << (step % 2 * 16 + which * 4) | (weight >> 15) << (which * 8 + (step % 2 ? 3 : 7));
    }

    __device__ __forceinline__ void store(uint8_t* unit) const {
        const uint32_t lane = threadIdx.x % 32;
#pragma unroll
        for (uint32_t half = 0; half < 2; ++half) {
            const uint32_t* mine = low + half * kHalfSteps;
            *reinterpret_cast<uint4*>(unit + half * (kLowBytes / 2) + lane * 16) = make_uint4(mine[0], mine[1], mine[2], mine[3]);
            *reinterpret_cast<uint2*>(unit + kLowBytes + half * (kLowBytes / 4) + lane * 8) =
                make_uint2(codes[half * 2], codes[half * 2 + 1]);
        }
    }
};

// Successors may read weights before they wait, so they are not let in early.
extern "C" __global__ void __launch_bounds__(kFoldWarps * 32) fold_weight(const __grid_constant__ FoldParams p) {
    __shared__ uint32_t counts[kFoldWarps][kKinds];
    wait_for_predecessor();
    const uint32_t warp = threadIdx.x / 32, lane = threadIdx.x % 32, blocks = p.rows / kUnitRows;
    const uint32_t number = blockIdx.x * kFoldWarps + warp, block = number % blocks;
    const uint32_t first = number / blocks * kUnitInputs;
    if (first >= p.inputs) return;
    Fold fold;
    fold.load(p, block * kUnitRows + lane / 4, first);
    for (uint32_t i = lane; i < kKinds; i += 32) counts[warp][i] = 0;
    __syncwarp();
    for (uint32_t i = 0; i < kEach; ++i) atomicAdd(&counts[warp][kind_of(fold.weights[i])], 1);
    __syncwarp();
    const uint32_t kind = best_kind(counts[warp]), own = fold.own_kind(kind);
    uint8_t* head = p.heads + static_cast<size_t>(number) * kHeadBytes;
    if (lane == 0) reinterpret_cast<uint32_t*>(head)[0] = kind * 0x01010101u + 0x03020100u;
    if (lane == 1) reinterpret_cast<uint32_t*>(head)[1] = kind * 0x00010101u + 0x00060504u;
    head[kTableBytes + lane] = own % kKinds;
#pragma unroll
    for (uint32_t i = 0; i < kEach; ++i) {
        const uint32_t weight = fold.weights[i], upper = kind_of(weight);
        if (upper == own) {
            fold.put(i, weight, kOwn);
        } else if (upper - kind < kOwn) {
            fold.put(i, weight, upper - kind);
        } else {
            // The table's first, with nothing below.
            const uint32_t place = atomicAdd(&p.counts[block], 1);
            const Stray stray{static_cast<uint16_t>(first + unit_column(lane, i)), static_cast<uint16_t>(lane / 4 + 1),
                              static_cast<uint16_t>(weight), static_cast<uint16_t>(kind << 8)};
            if (place < kMostStrays) p.strays[block * kMostStrays + place] = stray;
        }
    }
    fold.store(p.units + static_cast<size_t>(number) * kUnitBytes);
}
