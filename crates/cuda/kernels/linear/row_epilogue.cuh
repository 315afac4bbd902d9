// Epilogue of a tile whose sums lie in shared memory row by row. A thread takes four neighbouring outputs.
#pragma once
#include "../common/activate.cuh"
#include "params.cuh"

// Four neighbouring bf16 in one 8-byte access.
__device__ __forceinline__ void load_quad(const bf16* from, float (&values)[4]) {
    const uint2 bits = __ldcg(reinterpret_cast<const uint2*>(from));
    const float2 low = __bfloat1622float2(*reinterpret_cast<const __nv_bfloat162*>(&bits.x));
    const float2 high = __bfloat1622float2(*reinterpret_cast<const __nv_bfloat162*>(&bits.y));
    values[0] = low.x, values[1] = low.y, values[2] = high.x, values[3] = high.y;
}

__device__ __forceinline__ void store_quad(bf16* to, const float (&values)[4]) {
    const __nv_bfloat162 low = __floats2bfloat162_rn(values[0], values[1]);
    const __nv_bfloat162 high = __floats2bfloat162_rn(values[2], values[3]);
    *reinterpret_cast<uint2*>(to) = make_uint2(*reinterpret_cast<const uint32_t*>(&low), *reinterpret_cast<const uint32_t*>(&high));
}

// Sums of one tile: this block's, and those that the other blocks of its cluster sent.
struct TileSums {
    const float* own;
    const float* received;
    // Rows are dealt round robin: this block finishes every `parts`th from `part` on.
    uint32_t part;
    uint32_t parts;
    // Floats between the shares of two blocks, and between rows.
    uint32_t apart;
    uint32_t row_floats;

    // The n-th row of this block.
    __device__ __forceinline__ uint32_t row(uint32_t number) const { return number * parts + part; }

    // Sums of several offsets. Always added in rank order, so that the result does not depend on the block.
    template <int kCount>
    __device__ __forceinline__ void add(const uint32_t (&places)[kCount], float (&sums)[kCount][4]) const {
#pragma unroll
        for (int i = 0; i < kCount; ++i) sums[i][0] = sums[i][1] = sums[i][2] = sums[i][3] = 0.0f;
#pragma unroll 1
        for (uint32_t from = 0; from < parts; ++from) {
            const float* sent = from == part ? own : received + (from - (from > part)) * apart;
#pragma unroll
            for (int i = 0; i < kCount; ++i) {
                const float4 found = *reinterpret_cast<const float4*>(sent + places[i]);
                sums[i][0] += found.x, sums[i][1] += found.y, sums[i][2] += found.z, sums[i][3] += found.w;
            }
        }
    }
};

// For at most `kRows` rows and `kThreads` threads.
template <int kOutputs, int kRows, int kThreads, Epilogue kEpilogue>
struct RowEpilogue {
    static constexpr bool kGated = kEpilogue == Epilogue::kGated;
    static constexpr bool kAddNorm = kEpilogue == Epilogue::kAddNorm;
    static constexpr uint32_t kQuads = kGated ? kOutputs / 8 : kOutputs / 4;
    // Vectors that become one: a gate and its up value.
    static constexpr uint32_t kHeld = kGated ? 2 : 1;
    // A thread has the same outputs of every `kStep`th row.
    static constexpr uint32_t kStep = kThreads / kQuads;
    static_assert(kGated || kQuads % 4 == 0, "quads of sixteen outputs are neighbours");
    // Most rows of a thread, rows that it finishes side by side, and rows whose residuals it loads at once.
    static constexpr uint32_t kEach = (kRows + kStep - 1) / kStep;
    static constexpr uint32_t kPair = kEach < 2 ? 1 : 2;
    static constexpr uint32_t kAtOnce = kAddNorm && kEach >= 4 ? 4 : kPair;

    // What a thread needs in the epilogue and can load long before.
    struct Prefetched {
        float bias[kHeld][4];
        float norm[4];
        float residual[kAtOnce][4];
    };

    const EpilogueParams& p;
    // The first of this thread's four results, and whether it exists.
    const uint32_t place;
    const bool is_there;

    __device__ __forceinline__ RowEpilogue(const EpilogueParams& params, uint32_t first)
        : p(params),
          place(first / kHeld + threadIdx.x % kQuads * 4),
          is_there(place < params.outputs / kHeld && first_number() < kStep) {}

    // Inputs that no kernel of the step writes.
    __device__ __forceinline__ void prepare(Prefetched& prefetched) const {
#pragma unroll
        for (uint32_t held = 0; held < kHeld; ++held) {
#pragma unroll
            for (uint32_t i = 0; i < 4; ++i) prefetched.bias[held][i] = 0.0f;
            if (p.bias && is_there) load_quad(p.bias + held * (p.outputs / 2) + place, prefetched.bias[held]);
        }
        if (kAddNorm && is_there) {
            const float4 norm = __ldg(reinterpret_cast<const float4*>(p.norm + place));
            prefetched.norm[0] = norm.x, prefetched.norm[1] = norm.y, prefetched.norm[2] = norm.z, prefetched.norm[3] = norm.w;
        }
    }

    // For the rows that this thread finishes at once, from `number` on.
    template <class Sums>
    __device__ __forceinline__ void load_residuals(const Sums& sums, uint32_t number, Prefetched& prefetched) const {
#pragma unroll
        for (uint32_t i = 0; i < kAtOnce; ++i) {
            const uint32_t row = sums.row(number + i * kStep);
            if (is_there && row < p.rows) load_quad(p.residual + row * p.residual_stride + place, prefetched.residual[i]);
        }
    }

    static __device__ __forceinline__ uint32_t first_number() { return threadIdx.x / kQuads; }

    // Finishes the rows of this block; `factors`: their deferred RMS scales.
    template <class Sums>
    __device__ __forceinline__ void run(const Sums& sums, const float* factors, Prefetched& prefetched) const {
        uint32_t number = first_number();
        // Whole warps continue while one of their lanes may have a row.
#pragma unroll 1
        for (uint32_t first = 0; sums.row(first) < p.rows; first += kAtOnce * kStep) {
#pragma unroll
            for (uint32_t i = 0; i < kAtOnce; i += kPair, number += kPair * kStep) {
                if (i > 0 && sums.row(first + i * kStep) >= p.rows) continue;
                const uint32_t count = sums.row(first + (i + 1) * kStep) < p.rows ? kPair : 1;
                store_rows(sums, number, count, factors, prefetched, &prefetched.residual[i]);
            }
            if constexpr (kAddNorm && kEach > kAtOnce) load_residuals(sums, number, prefetched);
        }
    }

private:
    // `count` rows of a pair.
    template <class Sums>
    __device__ __forceinline__ void store_rows(const Sums& sums, uint32_t number, uint32_t count, const float* factors, const Prefetched& prefetched,
                                        const float (*before)[4]) const {
        const uint32_t quad = threadIdx.x % kQuads;
        // Gates and up values alternate by eight.
        const uint32_t output = kGated ? quad / 2 * 16 + quad % 2 * 4 : quad * 4;
        uint32_t rows[kPair], places[kPair * kHeld];
        bool is_mine[kPair];
#pragma unroll
        for (uint32_t i = 0; i < kPair; ++i) {
            rows[i] = sums.row(number + i * kStep);
            is_mine[i] = is_there && rows[i] < p.rows;
#pragma unroll
            for (uint32_t j = 0; j < kHeld; ++j) {
                places[i * kHeld + j] = is_mine[i] ? (number + i * kStep) * sums.row_floats + output + j * 8 : 0;
            }
        }
        float held[kPair * kHeld][4];
        sums.add(places, held);
#pragma unroll
        for (uint32_t i = 0; i < kPair; ++i) {
            if (i >= count) break;
            const float factor = factors && is_mine[i] ? factors[rows[i]] : 1.0f;
            store_row(rows[i], is_mine[i], factor, prefetched, before[i], &held[i * kHeld]);
        }
    }

    __device__ __forceinline__ void store_row(uint32_t row, bool is_mine, float factor, const Prefetched& prefetched,
                                            const float (&before)[4], float (*held)[4]) const {
        float(&values)[4] = held[0];
#pragma unroll
        for (uint32_t i = 0; i < 4; ++i) {
#pragma unroll
            for (uint32_t j = 0; j < kHeld; ++j) held[j][i] = held[j][i] * factor + prefetched.bias[j][i];
        }
        if constexpr (kGated) {
#pragma unroll
            for (uint32_t i = 0; i < 4; ++i) values[i] = activate(values[i], p.gelu) * held[1][i];
        }
        if constexpr (kAddNorm) add_norm(row, is_mine, values, prefetched.norm, before);
        if (!is_mine) return;
        const uint32_t at = row * p.out_stride + place;
        if (kEpilogue == Epilogue::kStore && p.wide) {
            *reinterpret_cast<float4*>(static_cast<float*>(p.out) + at) = make_float4(values[0], values[1], values[2], values[3]);
        } else {
            store_quad(static_cast<bf16*>(p.out) + at, values);
        }
    }

    // Adds the residual and multiplies by the next norm's weight; the RMS scale is deferred.
    __device__ __forceinline__ void add_norm(uint32_t row, bool is_mine, float (&values)[4], const float (&norm)[4],
                                              const float (&before)[4]) const {
        float squares = 0.0f;
#pragma unroll
        for (uint32_t i = 0; i < 4; ++i) {
            values[i] += before[i];
            squares += is_mine ? values[i] * values[i] : 0.0f;
        }
        if (is_mine) store_quad(p.residual + row * p.residual_stride + place, values);
#pragma unroll
        for (uint32_t i = 0; i < 4; ++i) values[i] *= norm[i];
        // Four threads have the sixteen outputs of a sum of squares.
        squares += __shfl_xor_sync(0xffffffffu, squares, 1);
        squares += __shfl_xor_sync(0xffffffffu, squares, 2);
        if (is_mine && threadIdx.x % 4 == 0) p.next_squares[row * p.next_parts + place / 16] = squares;
    }
};
