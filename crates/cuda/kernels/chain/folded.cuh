// Folded weights of a chain: units are unfolded into registers, and from there on they are bf16.
#pragma once
#include "../common/fold.cuh"
#include "../linear/strays.cuh"
#include "slice.cuh"

// Rows of x, products and sums are those of bf16.
struct FoldedWeight : PlainWeight {
    // A stage: two units for sixteen outputs of every segment, and then heads, which are copied by pairs of neighbours. Where
    // half of the outputs are gates, their neighbours are another group's.
    static constexpr uint32_t kSegments = kWarps * kInputs / kUnitInputs;
    static constexpr uint32_t kUnits = 2 * kSegments * kUnitBytes;
    static constexpr uint32_t kHeads = kSegments * 2 * kHeadBytes;
    static_assert(kUnits + 2 * kHeads <= kStageBytes, "fits");

    static __device__ __forceinline__ void fetch(const ReadOnce& once, uint8_t* to, const ChainLink& link, Barrier* full, bool gated,
                                                 uint32_t group, uint32_t stage) {
        full->expect(kUnits + (gated ? 2 * kHeads : kHeads));
        once.copy_box(to, &link.maps[0], full, 0, 0, group, stage * kSegments);
        copy_box(to + kUnits, &link.maps[1], full, 0, 0, gated ? group / 2 : group, stage * kSegments);
    }

    // Half of a segment is a warp's: where its first unit lies in a stage, that one's head, and how far it is to the other's.
    struct Places {
        uint32_t unit;
        uint32_t head;
        uint32_t other;

        __device__ __forceinline__ Places(LinkKind kind, uint32_t group, uint32_t warp) {
            const bool gated = kind == LinkKind::kGated;
            other = gated ? 2 * kHeadBytes : kHeadBytes;
            unit = warp / 2 * (2 * kUnitBytes);
            head = kUnits + warp / 2 * 2 * other + (gated ? group % 2 * kHeadBytes : 0);
        }
    };

    // Unfolded before rows are waited for: it takes as many registers.
    struct Slice : PlainWeight::Slice {
        __device__ __forceinline__ void take(const uint8_t* stage, const Places& places, uint32_t warp) {
            FoldedHalf halves[2];
#pragma unroll
            for (uint32_t i = 0; i < 2; ++i) {
                halves[i].load(stage + places.unit + i * kUnitBytes, stage + places.head + i * places.other, warp % 2);
            }
            halves[0].unfold<false>(words);
            halves[1].unfold<true>(words);
        }
    };

    // What strays of sixteen outputs add to their sums, of which each lane has one.
    struct Corrections {
        uint2 stray;

        // Asks for them: sixteen lanes have those of the first eight outputs, sixteen those of the others.
        __device__ __forceinline__ void prepare(const ChainLink& link, uint32_t group) {
            const bool gated = link.kind == LinkKind::kGated;
            const uint32_t lane = threadIdx.x % 32, other = lane / kMostStrays;
            const uint32_t block = gated ? group + other * (link.linear.outputs / (2 * kUnitRows)) : 2 * group + other;
            stray = __ldg(link.linear.strays + block * kMostStrays + lane % kMostStrays);
        }

        // `row` is where this lane's row of x lies.
        __device__ __forceinline__ float add(float sum, const uint8_t* row) const {
            const uint32_t lane = threadIdx.x % 32, mine = lane / 4 + (lane & 2) * 4;
            StrayQueue queue(stray, true);
#pragma unroll 1
            while (queue.has_next()) {
                const uint32_t bits = *reinterpret_cast<const uint16_t*>(row + queue.column() * 2);
                const WeightAndStandIn next = queue.get();
                if (queue.place() == mine) sum = next.add(sum, __uint_as_float(bits << 16));
                queue.pass();
            }
            return sum;
        }
    };
};
