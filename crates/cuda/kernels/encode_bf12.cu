// Encodes bf16 weights as bf12 (common/bf12.cuh), one unit per warp.
#include "common/bf16.cuh"
#include "common/bf12.cuh"
#include "common/hopper.cuh"
#include "common/order.cuh"

struct EncodeParams {
    const bf16* weight;
    // All units, by segment of inputs.
    uint8_t* units;
    uint8_t* headers;
    // Per block of eight rows, and their counts. A weight with more than `kMaxOutliers` in a block is not encoded.
    Outlier* outliers;
    uint32_t* counts;
    uint32_t rows;
    uint32_t inputs;
};

constexpr uint32_t kEncodeWarps = 8;
constexpr uint32_t kEach = kUnitInputs / 4;
// Values of an upper byte without its sign.
constexpr uint32_t kKinds = 128;

__device__ __forceinline__ uint32_t kind_of(uint32_t weight) { return weight >> 8 & (kKinds - 1); }

// First of the seven consecutive upper bytes that cover most weights.
__device__ __forceinline__ uint32_t best_kind(const uint32_t* counts) {
    uint32_t best = 0;
    for (uint32_t first = threadIdx.x % 32; first + kLaneCode <= kKinds; first += 32) {
        uint32_t covered = 0;
        for (uint32_t i = 0; i < kLaneCode; ++i) covered += counts[first + i];
        best = max(best, covered << 8 | first);
    }
    return __reduce_max_sync(0xffffffffu, best) & 255;
}

// A lane's share of a unit.
struct Bf12Encoder {
    uint16_t weights[kEach];
    uint32_t low[kEach / 4] = {};
    uint32_t codes[kEach / 8] = {};

    // Inputs past the end are multiplied by zero, so any weight does; another one of the row needs no extra table entry.
    __device__ __forceinline__ void load(const EncodeParams& p, uint32_t row, uint32_t first) {
        const bf16* from = p.weight + static_cast<size_t>(row) * p.inputs;
#pragma unroll
        for (uint32_t i = 0; i < kEach; i += 2) {
            const uint32_t column = first + unit_column(threadIdx.x % 32, i);
            const bool is_there = column < p.inputs;
            const uint32_t pair = *reinterpret_cast<const uint32_t*>(from + (is_there ? column : first + threadIdx.x % 4 * 2));
            weights[i] = pair & 0xffff, weights[i + 1] = pair >> 16;
        }
    }

    // The first upper byte that is not in the table.
    __device__ __forceinline__ uint32_t own_kind(uint32_t kind) const {
        uint32_t own = kKinds;
#pragma unroll
        for (uint32_t i = 0; i < kEach; ++i) {
            if (own == kKinds && kind_of(weights[i]) - kind >= kLaneCode) own = kind_of(weights[i]);
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

// Dependents may read weights before they wait, so they are not launched early.
extern "C" __global__ void __launch_bounds__(kEncodeWarps * 32) encode_bf12(const __grid_constant__ EncodeParams p) {
    __shared__ uint32_t counts[kEncodeWarps][kKinds];
    wait_on_dependent_grids();
    const uint32_t warp = threadIdx.x / 32, lane = threadIdx.x % 32, blocks = p.rows / kUnitRows;
    const uint32_t number = blockIdx.x * kEncodeWarps + warp, block = number % blocks;
    const uint32_t first = number / blocks * kUnitInputs;
    if (first >= p.inputs) return;
    Bf12Encoder encoder;
    encoder.load(p, block * kUnitRows + lane / 4, first);
    for (uint32_t i = lane; i < kKinds; i += 32) counts[warp][i] = 0;
    __syncwarp();
    for (uint32_t i = 0; i < kEach; ++i) atomicAdd(&counts[warp][kind_of(encoder.weights[i])], 1);
    __syncwarp();
    const uint32_t kind = best_kind(counts[warp]), own = encoder.own_kind(kind);
    uint8_t* header = p.headers + static_cast<size_t>(number) * kHeaderBytes;
    if (lane == 0) reinterpret_cast<uint32_t*>(header)[0] = kind * 0x01010101u + 0x03020100u;
    if (lane == 1) reinterpret_cast<uint32_t*>(header)[1] = kind * 0x00010101u + 0x00060504u;
    header[kTableBytes + lane] = own % kKinds;
#pragma unroll
    for (uint32_t i = 0; i < kEach; ++i) {
        const uint32_t weight = encoder.weights[i], upper = kind_of(weight);
        if (upper == own) {
            encoder.put(i, weight, kLaneCode);
        } else if (upper - kind < kLaneCode) {
            encoder.put(i, weight, upper - kind);
        } else {
            // The table's first upper byte, with a lower byte of zero.
            const uint32_t place = atomicAdd(&p.counts[block], 1);
            const Outlier outlier{static_cast<uint16_t>(first + unit_column(lane, i)), static_cast<uint16_t>(lane / 4 + 1),
                              static_cast<uint16_t>(weight), static_cast<uint16_t>(kind << 8)};
            if (place < kMaxOutliers) p.outliers[block * kMaxOutliers + place] = outlier;
        }
    }
    encoder.store(p.units + static_cast<size_t>(number) * kUnitBytes);
}
