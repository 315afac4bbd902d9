// Normalises query and key heads if asked, rotates them by position, and stores keys and values into pages.
//
// Where heads are made of 16-byte pieces, a warp takes some heads of one token at once, and where there are many tokens
// four times as many, one after the other; other heads take a warp each. Query heads are rotated in place; key and value
// heads go to the cache as well.
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
    // Turns of a warp that takes whole pieces: one or four.
    uint32_t turns;
};

constexpr int kWarps = 8;
constexpr int kWidest = 256;
constexpr int kTurns = 4;

enum Kind : uint32_t { kQuery, kKey, kValue, kNone };

// One head of one token: queries come first, then keys, then values.
struct Place {
    Kind kind;
    // Counted among those of its kind.
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
    __device__ __forceinline__ size_t slot(const RopeParams& p, uint32_t token) const {
        return (static_cast<size_t>(p.fresh.slots[token]) * p.kv_heads + head) * p.head_dim;
    }
};

// A head of any size up to 256 in a warp: lane l holds every 32nd element, and pairs meet in shared memory.
struct OddHead {
    float values[kWidest / 32];

    __device__ __forceinline__ static uint32_t at(int i) { return threadIdx.x % 32 + 32 * i; }

    __device__ __forceinline__ void load(const bf16* from, uint32_t dim) {
#pragma unroll
        for (int i = 0; i < kWidest / 32; ++i) values[i] = at(i) < dim ? __bfloat162float(from[at(i)]) : 0.0f;
    }

    __device__ __forceinline__ void normalise(const void* weight, float eps, uint32_t wide, uint32_t dim) {
        float squares = 0.0f;
#pragma unroll
        for (int i = 0; i < kWidest / 32; ++i) squares += values[i] * values[i];
        const float factor = rsqrtf(warp_sum(squares) / dim + eps);
#pragma unroll
        for (int i = 0; i < kWidest / 32; ++i) {
            if (at(i) < dim) values[i] *= factor * number(weight, wide, at(i));
        }
    }

    __device__ __forceinline__ void rotate(const float* angles, uint32_t rotated, float* line) {
        const uint32_t half = rotated / 2;
#pragma unroll
        for (int i = 0; i < kWidest / 32; ++i) line[at(i)] = values[i];
        __syncwarp();
#pragma unroll
        for (int i = 0; i < kWidest / 32; ++i) {
            if (at(i) >= 2 * half) continue;
            const uint32_t pair = at(i) < half ? at(i) : at(i) - half;
            const float other = at(i) < half ? -line[at(i) + half] : line[at(i) - half];
            values[i] = values[i] * angles[pair] + other * angles[half + pair];
        }
        __syncwarp();
    }

    template <typename Element>
    __device__ __forceinline__ void store(Element* to, uint32_t dim) const {
#pragma unroll
        for (int i = 0; i < kWidest / 32; ++i) {
            if (at(i) < dim) to[at(i)] = Element(values[i]);
        }
    }

    __device__ __forceinline__ static void run(const RopeParams& p, float* line) {
        const uint32_t heads = p.query_heads + 2 * p.kv_heads;
        const uint32_t warp = blockIdx.x * kWarps + threadIdx.x / 32, token = warp / heads;
        if (token >= p.tokens) return;
        const Place place(p, token, warp % heads);
        OddHead head;
        head.load(place.from, p.head_dim);
        if (place.norm(p)) head.normalise(place.norm(p), place.eps(p), p.fresh.wide_norms, p.head_dim);
        if (place.turns(p)) {
            head.rotate(p.fresh.table + static_cast<size_t>(p.fresh.positions[token]) * p.rotated, p.rotated, line);
            head.store(place.from, p.head_dim);
        } else if (place.kind == kQuery) {
            head.store(place.from, p.head_dim);
        }
        if (!place.is_cached()) return;
        if (p.fp8) {
            head.store(static_cast<__nv_fp8_e4m3*>(place.pages(p)) + place.slot(p, token), p.head_dim);
        } else {
            head.store(static_cast<bf16*>(place.pages(p)) + place.slot(p, token), p.head_dim);
        }
    }
};

// A head of kDim elements in kDim / 16 lanes: each holds eight of the lower half and their partners in the upper half.
template <int kDim>
struct PairedHead {
    static constexpr uint32_t kLanes = kDim / 16, kAtOnce = 32 / kLanes;
    float low[8], high[8];

    __device__ __forceinline__ static uint32_t first() { return threadIdx.x % kLanes * 8; }

    // Every lane of the warp comes here, whether its head has a norm or not.
    __device__ __forceinline__ void normalise(const void* weight, float eps, uint32_t wide) {
        float squares = 0.0f;
#pragma unroll
        for (int i = 0; i < 8; ++i) squares += low[i] * low[i] + high[i] * high[i];
#pragma unroll
        for (uint32_t offset = kLanes / 2; offset > 0; offset /= 2) squares += __shfl_xor_sync(0xffffffffu, squares, offset);
        if (!weight) return;
        const float factor = rsqrtf(squares / kDim + eps);
        float weights[8];
        numbers(weight, wide, first(), weights);
#pragma unroll
        for (int i = 0; i < 8; ++i) low[i] *= factor * weights[i];
        numbers(weight, wide, kDim / 2 + first(), weights);
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

    __device__ __forceinline__ void store(bf16* to) const {
        store8(to + first(), pack8(low));
        store8(to + kDim / 2 + first(), pack8(high));
    }

    __device__ __forceinline__ void store(__nv_fp8_e4m3* to) const {
        store_narrow(to + first(), low);
        store_narrow(to + kDim / 2 + first(), high);
    }

    __device__ __forceinline__ static void store_narrow(__nv_fp8_e4m3* to, const float (&values)[8]) {
        __nv_fp8x4_e4m3 narrow[2];
        narrow[0] = __nv_fp8x4_e4m3(make_float4(values[0], values[1], values[2], values[3]));
        narrow[1] = __nv_fp8x4_e4m3(make_float4(values[4], values[5], values[6], values[7]));
        *reinterpret_cast<uint2*>(to) = make_uint2(narrow[0].__x, narrow[1].__x);
    }

    // Some heads of one token: all are read before the first is written.
    template <int kTurns>
    __device__ __forceinline__ static void run(const RopeParams& p) {
        const uint32_t heads = p.query_heads + 2 * p.kv_heads, parts = (heads + kAtOnce * kTurns - 1) / (kAtOnce * kTurns);
        const uint32_t warp = blockIdx.x * kWarps + threadIdx.x / 32, token = warp / parts;
        if (token >= p.tokens) return;
        const uint32_t number = warp % parts * kAtOnce * kTurns + threadIdx.x % 32 / kLanes;
        Bf16x8 packed[kTurns][2];
#pragma unroll
        for (int turn = 0; turn < kTurns; ++turn) {
            const Place place(p, token, number + turn * kAtOnce);
            if (place.kind == kNone) continue;
            packed[turn][0] = load8(place.from + first());
            packed[turn][1] = load8(place.from + kDim / 2 + first());
        }
        float cosines[8], sines[8];
        if (p.rotated) {
            const float* angles = p.fresh.table + static_cast<size_t>(p.fresh.positions[token]) * kDim;
            numbers(angles, true, first(), cosines);
            numbers(angles, true, kDim / 2 + first(), sines);
        }
#pragma unroll
        for (int turn = 0; turn < kTurns; ++turn) {
            const Place place(p, token, number + turn * kAtOnce);
            PairedHead head;
            unpack8(packed[turn][0], head.low);
            unpack8(packed[turn][1], head.high);
            head.normalise(place.norm(p), place.eps(p), p.fresh.wide_norms);
            if (place.turns(p)) head.rotate(cosines, sines);
            if (place.kind == kQuery || place.turns(p)) head.store(place.from);
            if (!place.is_cached()) continue;
            if (p.fp8) {
                head.store(static_cast<__nv_fp8_e4m3*>(place.pages(p)) + place.slot(p, token));
            } else {
                head.store(static_cast<bf16*>(place.pages(p)) + place.slot(p, token));
            }
        }
    }
};

template <int kDim>
__device__ __forceinline__ void run_paired(const RopeParams& p) {
    p.turns == kTurns ? PairedHead<kDim>::template run<kTurns>(p) : PairedHead<kDim>::template run<1>(p);
}

extern "C" __global__ void __launch_bounds__(32 * kWarps) rope_store_kv(const __grid_constant__ RopeParams p) {
    __shared__ float lines[kWarps][kWidest];
    begin_after_predecessor();
    if (!p.even) {
        OddHead::run(p, lines[threadIdx.x / 32]);
    } else if (p.head_dim == 128) {
        run_paired<128>(p);
    } else if (p.head_dim == 64) {
        run_paired<64>(p);
    } else {
        run_paired<256>(p);
    }
}
