// bf12 weights in the megakernel: units are decoded into registers; from there on they are bf16.
#pragma once
#include "../common/bf12.cuh"
#include "../linear/outliers.cuh"
#include "slice.cuh"

// Rows of x, MMAs and sums are those of bf16.
struct Bf12Weight : PlainWeight {
    // A tile: two units for sixteen outputs of every segment, then headers, which are copied in pairs of neighbours. Where half
    // of the outputs are gates, a header's neighbour belongs to another group.
    static constexpr uint32_t kSegments = kWarps * kInputs / kUnitInputs;
    static constexpr uint32_t kUnits = 2 * kSegments * kUnitBytes;
    static constexpr uint32_t kHeaders = kSegments * 2 * kHeaderBytes;
    static_assert(kUnits + 2 * kHeaders <= kTileBytes, "fits");

    static __device__ __forceinline__ void fetch(const EvictFirst& evict_first, uint8_t* to, const Stage& stage, Barrier* full, bool gated,
                                                 uint32_t group, uint32_t tile) {
        full->arrive_and_expect_tx(kUnits + (gated ? 2 * kHeaders : kHeaders));
        evict_first.tma_load(to, &stage.maps[0], full, 0, 0, group, tile * kSegments);
        tma_load(to + kUnits, &stage.maps[1], full, 0, 0, gated ? group / 2 : group, tile * kSegments);
    }

    // A warp takes half of a segment: offset of its first unit in a tile, of that unit's header, and distance to the other header.
    struct Places {
        uint32_t unit;
        uint32_t header;
        uint32_t other;

        __device__ __forceinline__ Places(StageKind kind, uint32_t group, uint32_t warp) {
            const bool gated = kind == StageKind::kGated;
            other = gated ? 2 * kHeaderBytes : kHeaderBytes;
            unit = warp / 2 * (2 * kUnitBytes);
            header = kUnits + warp / 2 * 2 * other + (gated ? group % 2 * kHeaderBytes : 0);
        }
    };

    // Decoded before the rows of x are waited for; it takes the same registers.
    struct Slice : PlainWeight::Slice {
        __device__ __forceinline__ void take(const uint8_t* tile, const Places& places, uint32_t warp) {
            Bf12Half halves[2];
#pragma unroll
            for (uint32_t i = 0; i < 2; ++i) {
                halves[i].load(tile + places.unit + i * kUnitBytes, tile + places.header + i * places.other, warp % 2);
            }
            halves[0].decode<false>(words);
            halves[1].decode<true>(words);
        }
    };

    // Corrections of sixteen outputs' sums by outliers; each lane has one sum.
    struct Corrections {
        uint2 outlier;

        // Loads outliers early: sixteen lanes have those of the first eight outputs, sixteen those of the others.
        __device__ __forceinline__ void prepare(const Stage& stage, uint32_t group) {
            const bool gated = stage.kind == StageKind::kGated;
            const uint32_t lane = threadIdx.x % 32, other = lane / kMaxOutliers;
            const uint32_t block = gated ? group + other * (stage.linear.outputs / (2 * kUnitRows)) : 2 * group + other;
            outlier = __ldg(stage.linear.outliers + block * kMaxOutliers + lane % kMaxOutliers);
        }

        // `row`: this lane's row of x.
        __device__ __forceinline__ float add(float sum, const uint8_t* row) const {
            const uint32_t lane = threadIdx.x % 32, mine = lane / 4 + (lane & 2) * 4;
            OutlierQueue queue(outlier, true);
#pragma unroll 1
            while (queue.has_next()) {
                const uint32_t bits = *reinterpret_cast<const uint16_t*>(row + queue.column() * 2);
                const OutlierCorrection next = queue.get();
                if (queue.place() == mine) sum = next.add(sum, __uint_as_float(bits << 16));
                queue.pop();
            }
            return sum;
        }
    };
};
