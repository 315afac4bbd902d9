// What a warp takes of a stage: sixteen outputs of some inputs, in registers.
#pragma once
#include "../common/float8.cuh"
#include "../common/mma.cuh"
#include "ring.cuh"

// Of bf16, a matrix for every sixteen inputs. Of eight-bit floats, codes of a segment: two halves of output lane / 4, then of
// lane / 4 + 8.
struct Slice {
    uint32_t words[4][4];

    // `from` is where the warp's part of the stage begins.
    __device__ __forceinline__ void take_plain(uint32_t from) {
        const uint32_t row = threadIdx.x % 16, side = threadIdx.x % 32 / 16;
#pragma unroll
        for (int i = 0; i < 4; ++i) load_matrices(words[i], from + row * 128 + ((i * 2 + side) ^ row % 8) * 16);
    }

    __device__ __forceinline__ void take_codes(uint32_t from) {
        const uint32_t row = threadIdx.x % 32 / 4, piece = threadIdx.x % 4 * 2;
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            const uint32_t place = from + row * 128 + ((piece + half) ^ row) * 16;
            load_piece(words[half], place);
            load_piece(words[2 + half], place + 8 * 128);
        }
    }

    // Adds products with the inputs whose rows this lane finds there.
    __device__ __forceinline__ void multiply_plain(uint32_t inputs, float (&sums)[2][4]) const {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            uint32_t b[4];
            load_matrices(b, inputs + half * 64);
#pragma unroll
            for (int i = 0; i < 2; ++i) multiply_bf16(sums[i], words[half * 2 + i], b[2 * i], b[2 * i + 1]);
        }
    }

    // Scales are those of the two outputs.
    __device__ __forceinline__ void multiply_codes(uint32_t inputs, const float (&scales)[2], float (&sums)[2][4]) const {
        float part[2][4] = {};
#pragma unroll
        for (int quarter = 0; quarter < 4; ++quarter) {
            uint32_t b[4];
            load_matrices(b, inputs + quarter * 64);
#pragma unroll
            for (int i = 0; i < 2; ++i) {
                const int half = quarter / 2, word = quarter % 2 * 2 + i;
                uint32_t a[4];
                widen_codes(words[half][word], a[0], a[2]);
                widen_codes(words[2 + half][word], a[1], a[3]);
                multiply_bf16(part[i], a, b[2 * i], b[2 * i + 1]);
            }
        }
#pragma unroll
        for (int i = 0; i < 4; ++i) sums[0][i] += scales[i / 2] * (part[0][i] + part[1][i]);
    }
};

// Where scales lie of the two outputs of a group that a lane has sums of.
struct SliceScales {
    const float* rows[2];
    uint32_t group_segments;
    uint32_t last;

    // Nothing where weights are not scaled.
    __device__ __forceinline__ SliceScales(const ChainLink& link, uint32_t group, bool narrow) {
        if (!narrow) return;
        const ChainLinear& p = link.linear;
        group_segments = p.scales.group_segments;
        last = p.scales.groups - 1;
        const uint32_t output = threadIdx.x % 32 / 4;
        const bool gated = link.kind == LinkKind::kGated;
        const uint32_t first = group * (gated ? kOutputs / 2 : kOutputs) + output;
        const uint32_t second = first + (gated ? p.outputs / 2 : kOutputs / 2);
        rows[0] = p.scales.row(min(first, p.outputs - 1));
        rows[1] = p.scales.row(min(second, p.outputs - 1));
    }

    __device__ __forceinline__ void find(uint32_t segment, float (&scales)[2]) const {
        // The last stage may have segments behind the last one.
        const uint32_t at = min(segment / group_segments, last);
        scales[0] = __ldg(rows[0] + at);
        scales[1] = __ldg(rows[1] + at);
    }
};
