// What becomes of the sums of a tile that lie in shared memory row by row, in one block or in several: results, gated
// results, or the end of a layer. Threads take four outputs that lie side by side.
#pragma once
#include "../common/activate.cuh"
#include "../common/cluster.cuh"
#include "params.cuh"

// Four outputs of a row, as they lie in device memory.
struct Quad {
    uint32_t place;
    uint32_t count;
    bool whole;

    // `even`: whole quads lie at multiples of their size.
    __device__ __forceinline__ Quad(uint32_t at, uint32_t outputs, bool even)
        : place(at), count(at < outputs ? min(outputs - at, 4u) : 0), whole(even && count == 4) {}

    __device__ __forceinline__ void load(const bf16* row, float (&values)[4]) const {
        if (whole) {
            const uint2 bits = __ldcg(reinterpret_cast<const uint2*>(row + place));
            const float2 low = __bfloat1622float2(*reinterpret_cast<const __nv_bfloat162*>(&bits.x));
            const float2 high = __bfloat1622float2(*reinterpret_cast<const __nv_bfloat162*>(&bits.y));
            values[0] = low.x, values[1] = low.y, values[2] = high.x, values[3] = high.y;
            return;
        }
#pragma unroll
        for (uint32_t i = 0; i < 4; ++i) values[i] = i < count ? __bfloat162float(row[place + i]) : 0.0f;
    }

    __device__ __forceinline__ void store(bf16* row, const float (&values)[4]) const {
        if (whole) {
            const __nv_bfloat162 low = __floats2bfloat162_rn(values[0], values[1]);
            const __nv_bfloat162 high = __floats2bfloat162_rn(values[2], values[3]);
            *reinterpret_cast<uint2*>(row + place) =
                make_uint2(*reinterpret_cast<const uint32_t*>(&low), *reinterpret_cast<const uint32_t*>(&high));
            return;
        }
#pragma unroll
        for (uint32_t i = 0; i < 4; ++i) {
            if (i < count) row[place + i] = __float2bfloat16(values[i]);
        }
    }

    __device__ __forceinline__ void store(float* row, const float (&values)[4]) const {
        if (whole) {
            *reinterpret_cast<float4*>(row + place) = make_float4(values[0], values[1], values[2], values[3]);
            return;
        }
#pragma unroll
        for (uint32_t i = 0; i < 4; ++i) {
            if (i < count) row[place + i] = values[i];
        }
    }
};

// The sums of one tile: where they lie in each block of the cluster, and how many blocks hold parts of them.
struct TileSums {
    uint32_t base;
    uint32_t parts;
};

template <int kOutputs, int kThreads, Ending kEnding>
struct RowEnding {
    // Rows begin in different banks.
    static constexpr uint32_t kRow = kOutputs + 4;
    static constexpr bool kGated = kEnding == Ending::kGated;
    static constexpr uint32_t kQuads = kGated ? kOutputs / 8 : kOutputs / 4;
    // A thread has the same outputs of every so manieth row.
    static constexpr uint32_t kStep = kThreads / kQuads;
    static_assert(kThreads % kQuads == 0 && kQuads % 4 == 0, "quads of sixteen outputs are neighbours");
    // Rows whose residuals a thread asks for at once.
    static constexpr uint32_t kAhead = 4;

    // What a thread needs at the end of a layer and can ask for long before.
    struct Ahead {
        float norm[4];
        float residual[kAhead][4];
    };

    static __device__ __forceinline__ bool is_even(const void* address, uint32_t stride, uint32_t size) {
        return (reinterpret_cast<uintptr_t>(address) | stride * size) % (4 * size) == 0;
    }

    // Parts are added in order, whoever adds them.
    static __device__ __forceinline__ void add(const TileSums& tile, uint32_t token, uint32_t output, float (&sums)[4]) {
        const uint32_t place = tile.base + (token * kRow + output) * 4;
#pragma unroll
        for (uint32_t i = 0; i < 4; ++i) sums[i] = 0.0f;
        for (uint32_t part = 0; part < tile.parts; ++part) {
            const float4 found = load_there(address_in(part, place));
            sums[0] += found.x, sums[1] += found.y, sums[2] += found.z, sums[3] += found.w;
        }
    }

    static __device__ __forceinline__ void add_bias(const LinearSurroundings& p, const Quad& quad, uint32_t from, float (&sums)[4]) {
        if (!p.bias) return;
#pragma unroll
        for (uint32_t i = 0; i < 4; ++i) {
            if (i < quad.count) sums[i] += __bfloat162float(p.bias[from + quad.place + i]);
        }
    }

    // Gates and their factors lie eight by eight.
    static __device__ __forceinline__ void gated(const LinearSurroundings& p, const TileSums& sums, const float* factors,
                                                 uint32_t first, uint32_t token, uint32_t number) {
        const uint32_t output = number / 2 * 16 + number % 2 * 4, width = p.outputs / 2;
        const Quad quad(first / 2 + number * 4, width, is_even(p.out, p.out_stride, 2));
        float gates[4], ups[4];
        add(sums, token, output, gates);
        add(sums, token, output + 8, ups);
        const float factor = factors ? factors[token] : 1.0f;
#pragma unroll
        for (uint32_t i = 0; i < 4; ++i) gates[i] *= factor, ups[i] *= factor;
        add_bias(p, quad, 0, gates);
        add_bias(p, quad, width, ups);
#pragma unroll
        for (uint32_t i = 0; i < 4; ++i) ups[i] *= activate(gates[i], p.gelu);
        quad.store(static_cast<bf16*>(p.out) + static_cast<size_t>(token) * p.out_stride, ups);
    }

    static __device__ __forceinline__ void results(const LinearSurroundings& p, const TileSums& sums, const float* factors,
                                                   uint32_t first, uint32_t token, uint32_t number) {
        const Quad quad(first + number * 4, p.outputs, is_even(p.out, p.out_stride, p.wide ? 4 : 2));
        float values[4];
        add(sums, token, number * 4, values);
        const float factor = factors ? factors[token] : 1.0f;
#pragma unroll
        for (uint32_t i = 0; i < 4; ++i) values[i] *= factor;
        add_bias(p, quad, 0, values);
        const size_t row = static_cast<size_t>(token) * p.out_stride;
        if (p.wide) {
            quad.store(static_cast<float*>(p.out) + row, values);
        } else {
            quad.store(static_cast<bf16*>(p.out) + row, values);
        }
    }

    // Adds to the residual; what the next products read lacks only the factor of the norm.
    static __device__ __forceinline__ void onward(const LinearSurroundings& p, const TileSums& sums, uint32_t first, uint32_t token,
                                                  const Quad& quad, const float (&norm)[4], const float (&before)[4]) {
        float values[4], weighted[4], squares = 0.0f;
        add(sums, token, quad.place - first, values);
        add_bias(p, quad, 0, values);
#pragma unroll
        for (uint32_t i = 0; i < 4; ++i) {
            values[i] = i < quad.count ? values[i] + before[i] : 0.0f;
            weighted[i] = values[i] * norm[i];
            squares += values[i] * values[i];
        }
        quad.store(p.residual + static_cast<size_t>(token) * p.residual_stride, values);
        quad.store(static_cast<bf16*>(p.out) + static_cast<size_t>(token) * p.out_stride, weighted);
        // Four threads have the sixteen outputs of a sum of squares.
        const uint32_t mates = 0xfu << threadIdx.x % 32 / 4 * 4;
        squares += __shfl_xor_sync(mates, squares, 1);
        squares += __shfl_xor_sync(mates, squares, 2);
        if (threadIdx.x % 4 == 0 && quad.count > 0) p.next_squares[token * p.next_parts + quad.place / 16] = squares;
    }

    static __device__ __forceinline__ Quad end_quad(const LinearSurroundings& p, uint32_t first) {
        const bool even = is_even(p.out, p.out_stride, 2) && is_even(p.residual, p.residual_stride, 2);
        return Quad(first + threadIdx.x % kQuads * 4, p.outputs, even);
    }

    static __device__ __forceinline__ void load_residuals(const LinearSurroundings& p, const Quad& quad, uint32_t token, uint32_t end,
                                                          float (&residual)[kAhead][4]) {
#pragma unroll
        for (uint32_t i = 0; i < kAhead; ++i) {
            const uint32_t row = token + i * kStep;
            if (row < end) quad.load(p.residual + static_cast<size_t>(row) * p.residual_stride, residual[i]);
        }
    }

    // For the first rows from `begin` to `end` that this thread ends.
    static __device__ __forceinline__ void prepare(const LinearSurroundings& p, uint32_t first, uint32_t begin, uint32_t end,
                                                   Ahead& ahead) {
        const Quad quad = end_quad(p, first);
#pragma unroll
        for (uint32_t i = 0; i < 4; ++i) ahead.norm[i] = i < quad.count ? __ldg(p.norm + quad.place + i) : 0.0f;
        load_residuals(p, quad, begin + threadIdx.x / kQuads, end, ahead.residual);
    }

    static __device__ void end_layer(const LinearSurroundings& p, const TileSums& sums, uint32_t first, uint32_t begin, uint32_t end,
                                     Ahead& ahead) {
        const Quad quad = end_quad(p, first);
        for (uint32_t token = begin + threadIdx.x / kQuads; token < end;) {
#pragma unroll
            for (uint32_t i = 0; i < kAhead; ++i) {
                const uint32_t row = token + i * kStep;
                if (row < end) onward(p, sums, first, row, quad, ahead.norm, ahead.residual[i]);
            }
            token += kAhead * kStep;
            load_residuals(p, quad, token, end, ahead.residual);
        }
    }

    // Rows from `begin` to `end` of the tile whose outputs begin at `first`; `factors` are those that rows lack.
    static __device__ void write(const LinearSurroundings& p, const TileSums& sums, const float* factors, uint32_t first,
                                 uint32_t begin, uint32_t end) {
        const uint32_t number = threadIdx.x % kQuads;
        for (uint32_t token = begin + threadIdx.x / kQuads; token < end; token += kStep) {
            if constexpr (kGated) {
                gated(p, sums, factors, first, token, number);
            } else {
                results(p, sums, factors, first, token, number);
            }
        }
    }
};
