// What becomes of the sums of a tile that lie in shared memory row by row: results, gated results, or the end of a layer.
// Threads take four outputs that lie side by side.
#pragma once
#include "../common/activate.cuh"
#include "params.cuh"

// Four numbers of bf16 that lie side by side at a multiple of their size.
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

// The sums of one tile: those of this block, and what the other blocks of its cluster sent.
struct TileSums {
    const float* own;
    const float* received;
    // Blocks take turns with rows: this one ends every `parts`th from `part` on.
    uint32_t part;
    uint32_t parts;
    // Floats from what one block sent to what the next one did, and from a row to the next.
    uint32_t apart;
    uint32_t row_floats;

    // The row that is the so manieth of this block.
    __device__ __forceinline__ uint32_t row(uint32_t number) const { return number * parts + part; }

    // Of several places; parts are added in order, whoever adds them.
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

// Of at most `kRows` rows, and so many threads.
template <int kOutputs, int kRows, int kThreads, Ending kEnding>
struct RowEnding {
    static constexpr bool kGated = kEnding == Ending::kGated;
    static constexpr bool kOnward = kEnding == Ending::kOnward;
    static constexpr uint32_t kQuads = kGated ? kOutputs / 8 : kOutputs / 4;
    // Quads that become one: a gate and its factor.
    static constexpr uint32_t kHeld = kGated ? 2 : 1;
    // A thread has the same outputs of every so manieth row.
    static constexpr uint32_t kStep = kThreads / kQuads;
    static_assert(kGated || kQuads % 4 == 0, "quads of sixteen outputs are neighbours");
    // Rows that a thread has at most, those that it ends side by side, and those whose residuals it asks for at once.
    static constexpr uint32_t kEach = (kRows + kStep - 1) / kStep;
    static constexpr uint32_t kPair = kEach < 2 ? 1 : 2;
    static constexpr uint32_t kAtOnce = kOnward && kEach >= 4 ? 4 : kPair;

    // What a thread needs at the end and can ask for long before.
    struct Ahead {
        float bias[kHeld][4];
        float norm[4];
        float residual[kAtOnce][4];
    };

    const LinearSurroundings& p;
    // The first of this thread's four results, and whether they are there.
    const uint32_t place;
    const bool is_there;

    __device__ __forceinline__ RowEnding(const LinearSurroundings& surroundings, uint32_t first)
        : p(surroundings),
          place(first / kHeld + threadIdx.x % kQuads * 4),
          is_there(place < surroundings.outputs / kHeld && first_number() < kStep) {}

    // What no kernel of the step writes.
    __device__ __forceinline__ void prepare(Ahead& ahead) const {
#pragma unroll
        for (uint32_t held = 0; held < kHeld; ++held) {
#pragma unroll
            for (uint32_t i = 0; i < 4; ++i) ahead.bias[held][i] = 0.0f;
            if (p.bias && is_there) load_quad(p.bias + held * (p.outputs / 2) + place, ahead.bias[held]);
        }
        if (kOnward && is_there) {
            const float4 norm = __ldg(reinterpret_cast<const float4*>(p.norm + place));
            ahead.norm[0] = norm.x, ahead.norm[1] = norm.y, ahead.norm[2] = norm.z, ahead.norm[3] = norm.w;
        }
    }

    // For the rows that this thread ends at once, from one on.
    template <class Sums>
    __device__ __forceinline__ void load_residuals(const Sums& sums, uint32_t number, Ahead& ahead) const {
#pragma unroll
        for (uint32_t i = 0; i < kAtOnce; ++i) {
            const uint32_t row = sums.row(number + i * kStep);
            if (is_there && row < p.rows) load_quad(p.residual + row * p.residual_stride + place, ahead.residual[i]);
        }
    }

    static __device__ __forceinline__ uint32_t first_number() { return threadIdx.x / kQuads; }

    // Ends the rows of this block; `factors` are those that rows lack.
    template <class Sums>
    __device__ __forceinline__ void run(const Sums& sums, const float* factors, Ahead& ahead) const {
        uint32_t number = first_number();
        // Whole warps go on as long as one of them may have a row.
#pragma unroll 1
        for (uint32_t first = 0; sums.row(first) < p.rows; first += kAtOnce * kStep) {
#pragma unroll
            for (uint32_t i = 0; i < kAtOnce; i += kPair, number += kPair * kStep) {
                if (i > 0 && sums.row(first + i * kStep) >= p.rows) continue;
                const uint32_t count = sums.row(first + (i + 1) * kStep) < p.rows ? kPair : 1;
                end(sums, number, count, factors, ahead, &ahead.residual[i]);
            }
            if constexpr (kOnward && kEach > kAtOnce) load_residuals(sums, number, ahead);
        }
    }

private:
    // So many rows of a pair; no thread has more.
    template <class Sums>
    __device__ __forceinline__ void end(const Sums& sums, uint32_t number, uint32_t count, const float* factors, const Ahead& ahead,
                                        const float (*before)[4]) const {
        const uint32_t quad = threadIdx.x % kQuads;
        // Gates and their factors lie eight by eight.
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
            end_row(rows[i], is_mine[i], factor, ahead, before[i], &held[i * kHeld]);
        }
    }

    __device__ __forceinline__ void end_row(uint32_t row, bool is_mine, float factor, const Ahead& ahead,
                                            const float (&before)[4], float (*held)[4]) const {
        float(&values)[4] = held[0];
#pragma unroll
        for (uint32_t i = 0; i < 4; ++i) {
#pragma unroll
            for (uint32_t j = 0; j < kHeld; ++j) held[j][i] = held[j][i] * factor + ahead.bias[j][i];
        }
        if constexpr (kGated) {
#pragma unroll
            for (uint32_t i = 0; i < 4; ++i) values[i] = activate(values[i], p.gelu) * held[1][i];
        }
        if constexpr (kOnward) end_layer(row, is_mine, values, ahead.norm, before);
        if (!is_mine) return;
        const uint32_t at = row * p.out_stride + place;
        if (kEnding == Ending::kResults && p.wide) {
            *reinterpret_cast<float4*>(static_cast<float*>(p.out) + at) = make_float4(values[0], values[1], values[2], values[3]);
        } else {
            store_quad(static_cast<bf16*>(p.out) + at, values);
        }
    }

    // Adds to the residual; what the next products read lacks only the factor of the norm.
    __device__ __forceinline__ void end_layer(uint32_t row, bool is_mine, float (&values)[4], const float (&norm)[4],
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
