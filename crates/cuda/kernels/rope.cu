// Normalises query and key heads if asked, rotates them by position (RoPE), and stores keys and values into pages.
//
// Where heads are 16-byte aligned, a warp takes several heads of one token at once, and with many tokens four times as many, one
// after the other; other heads take a warp each. Query heads are rotated in place; key and value heads go to the cache too.
#include "common/bf16.cuh"
#include "common/fresh.cuh"
#include "common/number.cuh"
#include "common/order.cuh"
#include "common/reduce.cuh"

struct RopeParams {
    FreshParams fresh;
    bf16* query;
    void* keys;
    void* values;
    uint32_t query_stride;
    uint32_t tokens;
    uint32_t query_heads;
    uint32_t kv_heads;
    uint32_t head_dim;
    uint32_t rotated;
    uint32_t fp8;
    // Heads of 64, 128 or 256 elements, rotated whole, that begin at multiples of 16 bytes.
    uint32_t even;
    // Iterations of a warp that takes whole vectors: one or four.
    uint32_t turns;
};

constexpr int kWarps = 8;
constexpr int kWidest = 256;
constexpr int kUnroll = 4;

enum Kind : uint32_t { kQuery, kKey, kValue, kNone };

// One head of one token: queries come first, then keys, then values.
struct Place {
    Kind kind;
    // Number among those of its kind.
    uint32_t head;
    bf16* from;

    __device__ __forceinline__ Place(const RopeParams& p, uint32_t token, uint32_t number) : kind(kQuery), head(number) {
        from = p.query + static_cast<size_t>(token) * p.query_stride;
        if (head >= p.query_heads) {
            kind = kKey, head -= p.query_heads;
            from = const_cast<bf16*>(p.fresh.key) + static_cast<size_t>(token) * p.fresh.key_stride;
            if (head >= p.kv_heads) {
                kind = kValue, head -= p.kv_heads;
                from = const_cast<bf16*>(p.fresh.value) + static_cast<size_t>(token) * p.fresh.value_stride;
                if (head >= p.kv_heads) kind = kNone;
            }
        }
        from += static_cast<size_t>(head) * p.head_dim;
    }

    __device__ __forceinline__ const void* norm(const RopeParams& p) const {
        return kind == kQuery ? p.fresh.query_norm : kind == kKey ? p.fresh.key_norm : nullptr;
    }
    __device__ __forceinline__ float eps(const RopeParams& p) const { return kind == kQuery ? p.fresh.query_eps : p.fresh.key_eps; }
    __device__ __forceinline__ bool turns(const RopeParams& p) const { return kind < kValue && p.rotated; }
    __device__ __forceinline__ bool is_cached() const { return kind == kKey || kind == kValue; }
    __device__ __forceinline__ void* pages(const RopeParams& p) const { return kind == kKey ? p.keys : p.values; }
    __device__ __forceinline__ size_t slot(const RopeParams& p, uint32_t number) const {
        return (static_cast<size_t>(number) * p.kv_heads + head) * p.head_dim;
    }
};

// A head of any size up to 256 in a warp, which keeps it in shared memory.
struct OddHead {
    float* line;
    uint32_t dim;

    // Calls `each` for every element of this lane. Rolled up: such heads are rare.
    template <typename Each>
    __device__ __forceinline__ static void each_below(uint32_t end, Each each) {
#pragma unroll 1
        for (uint32_t at = threadIdx.x % 32; at < end; at += 32) each(at);
    }

    __device__ __forceinline__ void normalise(const void* weight, float eps, uint32_t wide) {
        float squares = 0.0f;
        each_below(dim, [&](uint32_t at) { squares += line[at] * line[at]; });
        const float factor = rsqrtf(warp_sum(squares) / dim + eps);
        each_below(dim, [&](uint32_t at) { line[at] *= factor * number(weight, wide, at); });
        __syncwarp();
    }

    __device__ __forceinline__ void rotate(const float* angles, uint32_t half) {
        each_below(half, [&](uint32_t pair) {
            const float low = line[pair], high = line[pair + half], cosine = angles[pair], sine = angles[half + pair];
            line[pair] = low * cosine - high * sine;
            line[pair + half] = high * cosine + low * sine;
        });
        __syncwarp();
    }

    __device__ __forceinline__ static void run(const RopeParams& p, float* line) {
        const uint32_t heads = p.query_heads + 2 * p.kv_heads;
        const uint32_t warp = blockIdx.x * kWarps + threadIdx.x / 32, token = warp / heads;
        if (token >= p.tokens) return;
        const Place place(p, token, warp % heads);
        OddHead head{line, p.head_dim};
        each_below(p.head_dim, [&](uint32_t at) { line[at] = __bfloat162float(place.from[at]); });
        __syncwarp();
        if (place.norm(p)) head.normalise(place.norm(p), place.eps(p), p.fresh.wide_norms);
        if (place.turns(p)) {
            head.rotate(p.fresh.table + static_cast<size_t>(p.fresh.positions[token]) * p.rotated, p.rotated / 2);
        }
        const size_t slot = place.is_cached() ? place.slot(p, p.fresh.slots[token]) : 0;
        each_below(p.head_dim, [&](uint32_t at) {
            if (place.kind == kQuery || place.turns(p)) place.from[at] = bf16(line[at]);
            if (!place.is_cached()) return;
            if (p.fp8) {
                static_cast<__nv_fp8_e4m3*>(place.pages(p))[slot + at] = __nv_fp8_e4m3(line[at]);
            } else {
                static_cast<bf16*>(place.pages(p))[slot + at] = bf16(line[at]);
            }
        });
    }
};

// A head of 64, 128 or 256 elements in a lane for every 16: each holds eight of the lower half, and their partners in the
// upper half.
struct PairedHead {
    float low[8], high[8];

    // Every lane of the warp comes here, whether its head has a norm or not.
    __device__ __forceinline__ void normalise(const void* weight, float eps, uint32_t wide, uint32_t dim, uint32_t first) {
        float squares = 0.0f;
#pragma unroll
        for (int i = 0; i < 8; ++i) squares += low[i] * low[i] + high[i] * high[i];
#pragma unroll
        for (uint32_t offset = kWidest / 32; offset > 0; offset /= 2) {
            const float other = __shfl_xor_sync(0xffffffffu, squares, offset);
            if (32 * offset <= dim) squares += other;
        }
        if (!weight) return;
        const float part = dim == 64 ? 1.0f / 64 : dim == 128 ? 1.0f / 128 : 1.0f / 256;
        const float factor = rsqrtf(squares * part + eps);
        float weights[8];
        numbers(weight, wide, first, weights);
#pragma unroll
        for (int i = 0; i < 8; ++i) low[i] *= factor * weights[i];
        numbers(weight, wide, dim / 2 + first, weights);
#pragma unroll
        for (int i = 0; i < 8; ++i) high[i] *= factor * weights[i];
    }

    __device__ __forceinline__ void rotate(const float (&cosines)[8], const float (&sines)[8]) {
#pragma unroll
        for (int i = 0; i < 8; ++i) {
            const float before = low[i];
            low[i] = before * cosines[i] - high[i] * sines[i];
            high[i] = high[i] * cosines[i] + before * sines[i];
        }
    }

    __device__ __forceinline__ static void store_narrow(__nv_fp8_e4m3* to, const float (&values)[8]) {
        __nv_fp8x4_e4m3 narrow[2];
        narrow[0] = __nv_fp8x4_e4m3(make_float4(values[0], values[1], values[2], values[3]));
        narrow[1] = __nv_fp8x4_e4m3(make_float4(values[4], values[5], values[6], values[7]));
        *reinterpret_cast<uint2*>(to) = make_uint2(narrow[0].__x, narrow[1].__x);
    }

    // Several heads of one token: all are read before the first is written.
    __device__ __forceinline__ static void run(const RopeParams& p) {
        // Sizes are powers of two: no division but one.
        const uint32_t half = p.head_dim / 2, lane_bits = 31 - __clz(p.head_dim / 16), at_once = 32u >> lane_bits;
        const uint32_t each_bits = 5 - lane_bits + (p.turns == kUnroll ? 2 : 0);
        const uint32_t heads = p.query_heads + 2 * p.kv_heads, parts = (heads + (1u << each_bits) - 1) >> each_bits;
        const uint32_t warp = blockIdx.x * kWarps + threadIdx.x / 32, token = warp / parts;
        if (token >= p.tokens) return;
        const uint32_t first = (threadIdx.x & ((1u << lane_bits) - 1)) * 8;
        uint32_t number = ((warp - token * parts) << each_bits) + (threadIdx.x % 32 >> lane_bits);
        Bf16x8 packed[kUnroll][2];
#pragma unroll
        for (int turn = 0; turn < kUnroll; ++turn) {
            if (turn >= p.turns) break;
            const Place place(p, token, number + turn * at_once);
            if (place.kind == kNone) continue;
            packed[turn][0] = load8(place.from + first);
            packed[turn][1] = load8(place.from + half + first);
        }
        float cosines[8], sines[8];
        if (p.rotated) {
            const float* angles = p.fresh.table + static_cast<size_t>(p.fresh.positions[token]) * p.head_dim;
            numbers(angles, true, first, cosines);
            numbers(angles, true, half + first, sines);
        }
        const uint32_t slot = p.kv_heads ? p.fresh.slots[token] : 0;
#pragma unroll 1
        for (int turn = 0; turn < p.turns; ++turn, number += at_once) {
            const Place place(p, token, number);
            PairedHead head;
            unpack8(packed[0][0], head.low);
            unpack8(packed[0][1], head.high);
#pragma unroll
            for (int i = 1; i < kUnroll; ++i) packed[i - 1][0] = packed[i][0], packed[i - 1][1] = packed[i][1];
            head.normalise(place.norm(p), place.eps(p), p.fresh.wide_norms, p.head_dim, first);
            if (place.turns(p)) head.rotate(cosines, sines);
            const Bf16x8 low = pack8(head.low), high = pack8(head.high);
            if (place.kind == kQuery || place.turns(p)) {
                store8(place.from + first, low);
                store8(place.from + half + first, high);
            }
            if (!place.is_cached()) continue;
            const size_t at = place.slot(p, slot) + first;
            if (p.fp8) {
                __nv_fp8_e4m3* to = static_cast<__nv_fp8_e4m3*>(place.pages(p)) + at;
                store_narrow(to, head.low);
                store_narrow(to + half, head.high);
            } else {
                bf16* to = static_cast<bf16*>(place.pages(p)) + at;
                store8(to, low);
                store8(to + half, high);
            }
        }
    }
};

extern "C" __global__ void __launch_bounds__(32 * kWarps) rope_store_kv(const __grid_constant__ RopeParams p) {
    __shared__ float lines[kWarps][kWidest];
    launch_and_wait_on_dependent_grids();
    if (p.even) {
        PairedHead::run(p);
    } else {
        OddHead::run(p, lines[threadIdx.x / 32]);
    }
}
