// Normalises query and key heads if asked, rotates them by position, and stores keys and values into pages.
//
// One warp a head of one token, or four heads where there are many tokens. Query heads are rotated in place; key and value
// heads go to the cache as well.
#include "common/head.cuh"
#include "common/order.cuh"

struct RopeParams {
    bf16* query;
    bf16* key;
    const bf16* value;
    const void* query_norm;
    const void* key_norm;
    const uint32_t* positions;
    const float* table;
    const uint32_t* slots;
    void* keys;
    void* values;
    float query_eps;
    float key_eps;
    uint32_t query_stride;
    uint32_t key_stride;
    uint32_t value_stride;
    uint32_t tokens;
    uint32_t query_heads;
    uint32_t kv_heads;
    uint32_t head_dim;
    uint32_t rotated;
    uint32_t fp8;
    uint32_t wide_norms;
    // Heads of 64, 128 or 256 elements, rotated whole, that begin at multiples of 16 bytes.
    uint32_t even;
    // Heads a warp takes: one or four.
    uint32_t each;
};

constexpr int kWarps = 8;
constexpr int kWidest = 256;

// A head of any size up to 256: lane l holds every 32nd element, and pairs meet in shared memory.
struct OddHead {
    float values[kWidest / 32];

    struct Angles {
        const float* table;
        uint32_t rotated;
        float* line;

        __device__ __forceinline__ Angles(const float* from, uint32_t count, float* shared)
            : table(from), rotated(count), line(shared) {}
    };

    using Norm = HeadNorm;

    __device__ __forceinline__ static uint32_t at(int i) { return threadIdx.x % 32 + 32 * i; }

    __device__ __forceinline__ void load(const bf16* from, uint32_t dim) {
#pragma unroll
        for (int i = 0; i < kWidest / 32; ++i) values[i] = at(i) < dim ? __bfloat162float(from[at(i)]) : 0.0f;
    }

    __device__ __forceinline__ void normalise(const HeadNorm& norm, uint32_t dim) {
        float squares = 0.0f;
#pragma unroll
        for (int i = 0; i < kWidest / 32; ++i) squares += values[i] * values[i];
        const float factor = rsqrtf(warp_sum(squares) / dim + norm.eps);
#pragma unroll
        for (int i = 0; i < kWidest / 32; ++i) {
            if (at(i) < dim) values[i] *= factor * number(norm.weight, norm.wide, at(i));
        }
    }

    __device__ __forceinline__ void rotate(const Angles& angles) {
        const uint32_t half = angles.rotated / 2;
        float* line = angles.line;
#pragma unroll
        for (int i = 0; i < kWidest / 32; ++i) line[at(i)] = values[i];
        __syncwarp();
#pragma unroll
        for (int i = 0; i < kWidest / 32; ++i) {
            if (at(i) >= 2 * half) continue;
            const uint32_t pair = at(i) < half ? at(i) : at(i) - half;
            const float other = at(i) < half ? -line[at(i) + half] : line[at(i) - half];
            values[i] = values[i] * angles.table[pair] + other * angles.table[half + pair];
        }
        __syncwarp();
    }

    __device__ __forceinline__ void store(bf16* to, uint32_t dim) const {
#pragma unroll
        for (int i = 0; i < kWidest / 32; ++i) {
            if (at(i) < dim) to[at(i)] = __float2bfloat16(values[i]);
        }
    }

    __device__ __forceinline__ void store_narrow(__nv_fp8_e4m3* to, uint32_t dim) const {
#pragma unroll
        for (int i = 0; i < kWidest / 32; ++i) {
            if (at(i) < dim) to[at(i)] = __nv_fp8_e4m3(values[i]);
        }
    }
};

template <typename Head>
__device__ __forceinline__ void cache(const RopeParams& p, const Head& head, void* to, uint32_t slot, uint32_t kv_head) {
    const size_t offset = (static_cast<size_t>(slot) * p.kv_heads + kv_head) * p.head_dim;
    if (p.fp8) {
        head.store_narrow(static_cast<__nv_fp8_e4m3*>(to) + offset, p.head_dim);
    } else {
        head.store(static_cast<bf16*>(to) + offset, p.head_dim);
    }
}

// Where a head is: queries, then keys, then values.
__device__ __forceinline__ const bf16* source(const RopeParams& p, uint32_t token, uint32_t head) {
    if (head < p.query_heads) return p.query + static_cast<size_t>(token) * p.query_stride + head * p.head_dim;
    head -= p.query_heads;
    if (head < p.kv_heads) return p.key + static_cast<size_t>(token) * p.key_stride + head * p.head_dim;
    return p.value + static_cast<size_t>(token) * p.value_stride + (head - p.kv_heads) * p.head_dim;
}

template <typename Head>
__device__ __forceinline__ void finish(const RopeParams& p, Head& head, uint32_t token, uint32_t number, uint32_t slot,
                                       const typename Head::Angles& angles) {
    bf16* place = const_cast<bf16*>(source(p, token, number));
    using Norm = typename Head::Norm;
    if (number < p.query_heads) {
        if (p.query_norm) head.normalise(Norm(HeadNorm{p.query_norm, p.query_eps, p.wide_norms}), p.head_dim);
        if (p.rotated) head.rotate(angles);
        head.store(place, p.head_dim);
    } else if (number < p.query_heads + p.kv_heads) {
        if (p.key_norm) head.normalise(Norm(HeadNorm{p.key_norm, p.key_eps, p.wide_norms}), p.head_dim);
        if (p.rotated) {
            head.rotate(angles);
            head.store(place, p.head_dim);
        }
        cache(p, head, p.keys, slot, number - p.query_heads);
    } else {
        cache(p, head, p.values, slot, number - p.query_heads - p.kv_heads);
    }
}

// Some heads of one token: all are read before the first is written.
template <typename Head, int kEach>
__device__ __forceinline__ void run(const RopeParams& p, float* line) {
    const uint32_t heads = p.query_heads + 2 * p.kv_heads, parts = (heads + kEach - 1) / kEach;
    const uint32_t warp = blockIdx.x * kWarps + threadIdx.x / 32, token = warp / parts, first = warp % parts * kEach;
    if (token >= p.tokens) return;
    Head some[kEach];
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
        if (first + i < heads) some[i].load(source(p, token, first + i), p.head_dim);
    }
    const float* table = p.rotated ? p.table + static_cast<size_t>(p.positions[token]) * p.rotated : nullptr;
    const typename Head::Angles angles(table, p.rotated, line);
    const uint32_t slot = p.slots ? p.slots[token] : 0;
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
        if (first + i < heads) finish(p, some[i], token, first + i, slot, angles);
    }
}

extern "C" __global__ void __launch_bounds__(32 * kWarps) rope_store_kv(const __grid_constant__ RopeParams p) {
    __shared__ float lines[kWarps][kWidest];
    begin_after_predecessor();
    float* line = lines[threadIdx.x / 32];
    if (!p.even) {
        run<OddHead, 1>(p, line);
    } else if (p.head_dim == 128) {
        p.each == 4 ? run<EvenHead<4>, 4>(p, line) : run<EvenHead<4>, 1>(p, line);
    } else if (p.head_dim == 64) {
        p.each == 4 ? run<EvenHead<2>, 4>(p, line) : run<EvenHead<2>, 1>(p, line);
    } else {
        p.each == 4 ? run<EvenHead<8>, 4>(p, line) : run<EvenHead<8>, 1>(p, line);
    }
}
