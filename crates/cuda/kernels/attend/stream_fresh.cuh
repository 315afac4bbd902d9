// New tokens as they left the projection: asked for a row ahead, then normalised, rotated and stored.
//
// Memory that is busy with keys and values answers late, and a block that waits for its queries asks for nothing else soon.
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
    // Of the next row and block of columns: the token, its first column, and where it stands and is stored.
    uint32_t token = 0;
    uint32_t first_column = 0;
    uint32_t position = 0;
    uint32_t slot = 0;

    __device__ StreamFresh(const StreamParams& params, const Shape& shared, uint32_t kv_head)
        : p(params), a(params.attend), shape(shared), head(kv_head) {}

    // Looks at the row that the block begins with. Weights of norms come along; everyone sees them once they have met.
    __device__ void begin(uint32_t first_token, uint32_t block) {
        const uint32_t i = threadIdx.x, wide = p.fresh.wide_norms;
        token = first_token;
        first_column = block * kColumns;
        look_up();
        if (!Shape::kKeepsNorms || i >= kDim) return;
        if (p.fresh.query_norm) shape.control->norms[0][i] = number(p.fresh.query_norm, wide, i);
        if (p.fresh.key_norm) shape.control->norms[1][i] = number(p.fresh.key_norm, wide, i);
    }

    // Asks for the next row, if there is one; the projection may still run. Nobody takes queries of the row before any more.
    __device__ void ask() const {
        if (token >= a.rows) return;
        ask_angles();
        wait_for_predecessor();
        ask_token();
    }

    // Makes the queries ready, and stores the key and the value if they are this block's. Every lane takes what it asked for
    // itself, but for angles.
    __device__ void open(const Unit& unit) {
        const uint32_t home = slot;
        first_column += kColumns;
        if (first_column >= a.group) {
            first_column = 0;
            ++token;
        }
        look_up();
        wait_copies<0>();
        meet(kMeeting, kComputing);
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
        for (int i = 0; i < kEach; i += kAtOnce) copy_few<4 * kAtOnce>(shape.control->angles + lane * kEach + i, from + i);
    }

    // Queries go where they will be once they are rotated.
    __device__ void ask_token() const {
        constexpr int kBytes = kDim / 32 * sizeof(bf16);
        const uint32_t first = Head::first();
        const bf16* queries = a.query + static_cast<size_t>(token) * a.query_stride + first;
#pragma unroll
        for (uint32_t column = warp; column < kColumns; column += kWarps) {
            const uint32_t number = first_column + column;
            if (number >= a.group) continue;
            copy_few<kBytes>(shape.control->query[column] + first, queries + (head * a.group + number) * kDim);
        }
        if (warp == kKeyWarp) {
            const bf16* from = p.fresh.key + static_cast<size_t>(token) * p.fresh.key_stride;
            copy_few<kBytes>(shape.control->raw_key + first, from + head * kDim + first);
        }
        if (warp == kValueWarp) {
            const bf16* from = p.fresh.value + static_cast<size_t>(token) * p.fresh.value_stride;
            copy_few<kBytes>(shape.control->raw_value + first, from + head * kDim + first);
        }
        commit_copies();
    }

    // To the cache, and to where the unit that holds the new position finds it.
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
