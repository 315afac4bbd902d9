// A warp's slice of a tile (sixteen outputs of some inputs, in registers), and rows of x in the matching layout.
#pragma once
#include "../common/float8.cuh"
#include "../common/mma.cuh"
#include "messages.cuh"

// Weights loaded as TMA tiles: one slice per warp, rows of 128 bytes, 128-byte swizzle.
struct TmaWeight {
    static __device__ __forceinline__ void fetch(const EvictFirst& evict_first, uint8_t* to, const Stage& stage, Barrier* full, bool gated,
                                                 uint32_t group, uint32_t tile) {
        full->arrive_and_expect_tx(kTileBytes);
        if (gated) {
            // Eight gates and their eight up rows.
            evict_first.tma_load(to, &stage.maps[0], full, 0, 0, 0, group, tile * kWarps);
        } else {
            evict_first.tma_load(to, &stage.maps[0], full, 0, group * kOutputs, tile * kWarps);
        }
    }

    struct Places {
        __device__ __forceinline__ Places(StageKind, uint32_t, uint32_t) {}
    };

    struct Corrections {
        __device__ __forceinline__ void prepare(const Stage&, uint32_t) {}
        __device__ __forceinline__ float add(float sum, const uint8_t*) const { return sum; }
    };
};

// bf16 weights.
struct PlainWeight : TmaWeight {
    // Inputs of a slice.
    static constexpr uint32_t kInputs = kSlice;
    // Slices that a warp holds in registers while it waits for rows.
    static constexpr int kHeld = 4;

    struct Rows {
        // Stores four inputs of a slice; `to` is the slice's start.
        __device__ __forceinline__ void put(uint8_t* to, uint32_t, uint32_t, uint32_t vector, uint2 four) {
            *reinterpret_cast<uint2*>(to + vector * 8) = four;
        }
    };

    struct Scale {};

    struct Scales {
        __device__ __forceinline__ Scales(const Stage&, uint32_t) {}
        __device__ __forceinline__ Scale find(uint32_t) const { return {}; }
    };

    // B fragments of a slice: two words per sixteen inputs.
    struct Inputs {
        uint32_t words[2][4];

        // `from`: this lane's ldmatrix address.
        __device__ __forceinline__ void load(uint32_t from) {
#pragma unroll
            for (int half = 0; half < 2; ++half) ldmatrix(words[half], from + half * 64);
        }
    };

    // A fragments: one 16×16 matrix per sixteen inputs.
    struct Slice {
        uint32_t words[4][4];

        __device__ __forceinline__ void take(const uint8_t* tile, const Places&, uint32_t warp) {
            const uint32_t from = shared_address(tile) + warp * kSliceBytes;
            const uint32_t row = threadIdx.x % 16, side = threadIdx.x % 32 / 16;
#pragma unroll
            for (int i = 0; i < 4; ++i) ldmatrix(words[i], from + row * 128 + ((i * 2 + side) ^ row % 8) * 16);
        }

        __device__ __forceinline__ void multiply(const Inputs& inputs, uint32_t, const Rows&, const Scale&, float (&sums)[4][4]) const {
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                mma_bf16(sums[i], words[i], inputs.words[i / 2][i % 2 * 2], inputs.words[i / 2][i % 2 * 2 + 1]);
            }
        }
    };
};

// e4m3 weights. Widened to f16, which takes a quarter of the instructions that bf16 would; rows of x are scaled by powers
// of two so that they are exact in f16 too.
struct NarrowWeight : TmaWeight {
    static constexpr uint32_t kInputs = kSegment;
    static constexpr int kHeld = 3;
    struct Rows {
        // Lane i keeps the inverse row scales of tile i; there are at most as many tiles as lanes.
        float factors[kMostRows] = {};

        // Each lane has four neighbouring inputs of a segment. Of every sixteen, inputs 2 q and 2 q + 8 become neighbours, then
        // 2 q + 1 and 2 q + 9: the order of the codes.
        __device__ __forceinline__ void put(uint8_t* to, uint32_t row, uint32_t tile, uint32_t lane, uint2 four) {
            const bool second = lane & 2;
            const uint32_t given = __shfl_xor_sync(kAllLanes, second ? four.x : four.y, 2);
            const uint32_t near = second ? given : four.x, far = second ? four.y : given;
            // The highest exponent of all lanes; comparing packed pairs compares their upper halves.
            const uint32_t most = max(max(near & 0x7fff7fffu, far & 0x7fff7fffu), max(near << 16 & 0x7fffffffu, far << 16 & 0x7fffffffu));
            const uint32_t exponent = __reduce_max_sync(kAllLanes, most) >> 23;
            // The largest is scaled to [2¹⁴, 2¹⁵).
            const uint32_t power = min(268 - exponent, 253u);
            const float scale = __uint_as_float(power << 23), factor = __uint_as_float(254 - power << 23);
            if (lane == tile) factors[0] = row == 0 ? factor : factors[0];
            if (lane == tile) factors[1] = row == 0 ? factors[1] : factor;
            const float2 low = as_floats(near), high = as_floats(far);
            uint32_t* place = reinterpret_cast<uint32_t*>(to) + lane / 4 * 8 + lane % 2 * 2 + second;
            place[0] = pack_f16(low.x * scale, high.x * scale);
            place[4] = pack_f16(low.y * scale, high.y * scale);
        }
    };

    // Of the two outputs of a lane.
    using Scale = float2;

    struct Scales {
        const float* values;
        // Start of the scale rows of the two outputs.
        uint32_t rows[2];
        Inverse by_segments;
        uint32_t last;

        __device__ __forceinline__ Scales(const Stage& stage, uint32_t group) : by_segments(stage.linear.scales.group_segments) {
            const LinearStage& p = stage.linear;
            values = p.scales.values;
            last = p.scales.groups - 1;
            const uint32_t output = threadIdx.x % 32 / 4;
            const bool gated = stage.kind == StageKind::kGated;
            const uint32_t first = group * (gated ? kOutputs / 2 : kOutputs) + output;
            const uint32_t second = first + (gated ? p.outputs / 2 : kOutputs / 2);
            const Inverse by_rows(p.scales.block_rows);
            rows[0] = by_rows.of(min(first, p.outputs - 1)) * p.scales.groups;
            rows[1] = by_rows.of(min(second, p.outputs - 1)) * p.scales.groups;
        }

        // The last tile may have segments past the end.
        __device__ __forceinline__ Scale find(uint32_t segment) const {
            const uint32_t at = min(by_segments.of(segment), last);
            return {__ldg(values + rows[0] + at), __ldg(values + rows[1] + at)};
        }
    };

    // Loaded at use: there are too many to hold those of several tiles.
    struct Inputs {
        uint32_t place;

        __device__ __forceinline__ void load(uint32_t from) { place = from; }
    };

    // Codes of a segment: two halves of output lane / 4, then of lane / 4 + 8.
    struct Slice {
        uint32_t words[4][4];

        __device__ __forceinline__ void take(const uint8_t* tile, const Places&, uint32_t warp) {
            const uint32_t from = shared_address(tile) + warp * kSliceBytes;
            const uint32_t row = threadIdx.x % 32 / 4, vector = threadIdx.x % 4 * 2;
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                const uint32_t place = from + row * 128 + ((vector + half) ^ row) * 16;
                load_shared_vector(words[half], place);
                load_shared_vector(words[2 + half], place + 8 * 128);
            }
        }

        __device__ __forceinline__ void multiply(const Inputs& inputs, uint32_t tile, const Rows& rows, const Scale& scale,
                                                 float (&sums)[4][4]) const {
            float part[2][4] = {};
#pragma unroll
            for (int quarter = 0; quarter < 4; ++quarter) {
                uint32_t b[4];
                ldmatrix(b, inputs.place + quarter * 64);
#pragma unroll
                for (int i = 0; i < 2; ++i) {
                    uint32_t a[4];
                    widen_fp8(words[quarter / 2][quarter % 2 * 2 + i], a[0], a[2]);
                    widen_fp8(words[2 + quarter / 2][quarter % 2 * 2 + i], a[1], a[3]);
                    mma_f16(part[i], a, b[2 * i], b[2 * i + 1]);
                }
            }
            // MMA columns repeat the rows of x.
            float factors[2];
#pragma unroll
            for (int i = 0; i < 2; ++i) factors[i] = __shfl_sync(kAllLanes, rows.factors[i], tile);
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                sums[0][i] += (part[0][i] + part[1][i]) * (i / 2 == 0 ? scale.x : scale.y) * factors[i % 2];
            }
        }
    };
};
