// New tokens as the QKV GEMM left them: loaded one row ahead, then normalised, rotated and stored.
//
// Memory that is busy with keys and values answers late, and a block that waits for its queries requests nothing else soon.
#pragma once
#include "../common/head.cuh"
#include "../common/order.cuh"
#include "stream.cuh"

template <typename Shape>
struct StreamFresh {
    using Kv = typename Shape::Kv;
    static constexpr int kDim = Shape::kDim;
    static constexpr int kColumns = Shape::kColumns;
    using Head = EvenHead<kDim / 32>;
    static constexpr int kKeyWarp = kWarps - 1, kValueWarp = kWarps - 2, kAngleWarp = kWarps - 3;

    const StreamParams& p;
    const AttendParams& a;
    const Shape& shape;
    const uint32_t head;
    const uint32_t warp = threadIdx.x / 32;
    const uint32_t lane = threadIdx.x % 32;
    // Of the next row and column block: the token, its first column, its position and slot.
    uint32_t token = 0;
    uint32_t first_column = 0;
    uint32_t position = 0;
    uint32_t slot = 0;

    __device__ StreamFresh(const StreamParams& params, const Shape& shared, uint32_t kv_head)
        : p(params), a(params.attend), shape(shared), head(kv_head) {}

    // Loads the block's first row and the norm weights; visible to all after the next barrier.
    __device__ void begin(uint32_t first_token, uint32_t block) {
        const uint32_t i = threadIdx.x, wide = p.fresh.wide_norms;
        token = first_token;
        first_column = block * kColumns;
        look_up();
        if (!Shape::kKeepsNorms || i >= kDim) return;
        if (p.fresh.query_norm) shape.control->norms[0][i] = number(p.fresh.query_norm, wide, i);
        if (p.fresh.key_norm) shape.control->norms[1][i] = number(p.fresh.key_norm, wide, i);
    }

    // Loads the next row, if there is one; the QKV GEMM may still run. All warps are done with the previous row's queries.
    __device__ void ask() const {
        if (token >= a.rows) return;
        ask_angles();
        wait_on_dependent_grids();
        ask_token();
    }

    // Prepares the queries, and stores the key and the value if they are this block's. Each lane uses what it loaded itself,
    // except for the angles.
    __device__ void open(const Unit& unit) {
        const uint32_t home = slot;
        first_column += kColumns;
        if (first_column >= a.group) {
            first_column = 0;
            ++token;
        }
        look_up();
        cp_async_wait<0>();
        named_barrier_sync(kMeeting, kComputing);
        const typename Head::Angles angles(shape.control->angles, kDim, nullptr);
#pragma unroll 1
        for (uint32_t column = warp; column < kColumns + kWarps; column += kWarps) {
            const bool is_query = column < kColumns, is_key = !is_query && warp == kKeyWarp;
            if (!is_query && (warp < kValueWarp || !unit.has(kHasNewest))) break;
            bf16* raw = is_query ? shape.control->query[column] : is_key ? shape.control->raw_key : shape.control->raw_value;
            Head some{};
            if (!is_query || column < unit.used()) some.load(raw, kDim);
            if (is_key || column < unit.used()) {
                const HeadNorm norm = is_key ? HeadNorm{p.fresh.key_norm, p.fresh.key_eps, p.fresh.wide_norms}
                                             : HeadNorm{p.fresh.query_norm, p.fresh.query_eps, p.fresh.wide_norms};
                const HeadNorm kept{shape.control->norms[is_key], norm.eps, true};
                if (norm.weight) some.normalise(typename Head::Norm(Shape::kKeepsNorms ? kept : norm), kDim);
                some.rotate(angles);
            }
            if (is_query) {
                some.store(raw, kDim);
            } else {
                keep(some, home, is_key ? a.keys : a.values, is_key ? shape.control->key : shape.control->value);
            }
        }
    }

private:
    __device__ void look_up() {
        if (token >= a.rows) return;
        position = p.fresh.positions[token];
        slot = p.fresh.slots[token];
    }

    __device__ void ask_angles() const {
        constexpr int kEach = kDim / 32, kAtOnce = kEach < 4 ? kEach : 4;
        if (warp != kAngleWarp) return;
        const float* from = p.fresh.table + static_cast<size_t>(position) * kDim + lane * kEach;
#pragma unroll
        for (int i = 0; i < kEach; i += kAtOnce) cp_async<4 * kAtOnce>(shape.control->angles + lane * kEach + i, from + i);
    }

    // Raw queries use the memory of the rotated ones.
    __device__ void ask_token() const {
        constexpr int kBytes = kDim / 32 * sizeof(bf16);
        const uint32_t first = Head::first();
        const bf16* queries = a.query + static_cast<size_t>(token) * a.query_stride + first;
#pragma unroll
        for (uint32_t column = warp; column < kColumns; column += kWarps) {
            const uint32_t number = first_column + column;
            if (number >= a.group) continue;
            cp_async<kBytes>(shape.control->query[column] + first, queries + (head * a.group + number) * kDim);
        }
        if (warp == kKeyWarp) {
            const bf16* from = p.fresh.key + static_cast<size_t>(token) * p.fresh.key_stride;
            cp_async<kBytes>(shape.control->raw_key + first, from + head * kDim + first);
        }
        if (warp == kValueWarp) {
            const bf16* from = p.fresh.value + static_cast<size_t>(token) * p.fresh.value_stride;
            cp_async<kBytes>(shape.control->raw_value + first, from + head * kDim + first);
        }
        cp_async_commit();
    }

    // To the cache, and to where the unit with the new position finds it.
    __device__ void keep(const Head& some, uint32_t home, const void* cache, uint8_t* aside) const {
        Kv* to = static_cast<Kv*>(const_cast<void*>(cache)) + (static_cast<size_t>(home) * a.kv_heads + head) * kDim;
        if constexpr (Shape::kNarrow) {
            some.store_narrow(to, kDim);
            some.store_narrow(reinterpret_cast<Kv*>(aside), kDim);
        } else {
            some.store(to, kDim);
            some.store(reinterpret_cast<bf16*>(aside), kDim);
        }
    }
};
