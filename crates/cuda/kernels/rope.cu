// Normalises query and key heads if asked, rotates them by position, and stores keys and values into pages.
//
// One warp a head of one token. Query heads are rotated in place; key and value heads go to the cache as well.
#include "common/bf16.cuh"
#include "common/number.cuh"
#include "common/order.cuh"
#include "common/reduce.cuh"

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
};

constexpr int kWarps = 8;
constexpr int kWidest = 256;

struct HeadNorm {
    const void* weight;
    float eps;
    uint32_t wide;
};

// A head of 32 · kPer elements: lane l holds kPer neighbours. Pairs lie sixteen lanes apart.
template <int kPer>
struct EvenHead {
    float values[kPer];
    static constexpr int kDim = 32 * kPer;

    __device__ __forceinline__ static uint32_t first() { return threadIdx.x % 32 * kPer; }

    __device__ __forceinline__ void load(const bf16* from, uint32_t) {
        __nv_bfloat162 pairs[kPer / 2];
        if constexpr (kPer == 2) *reinterpret_cast<uint32_t*>(pairs) = *reinterpret_cast<const uint32_t*>(from + first());
        if constexpr (kPer == 4) *reinterpret_cast<uint2*>(pairs) = *reinterpret_cast<const uint2*>(from + first());
        if constexpr (kPer == 8) *reinterpret_cast<uint4*>(pairs) = *reinterpret_cast<const uint4*>(from + first());
#pragma unroll
        for (int i = 0; i < kPer / 2; ++i) {
            const float2 pair = __bfloat1622float2(pairs[i]);
            values[2 * i] = pair.x;
            values[2 * i + 1] = pair.y;
        }
    }

    __device__ __forceinline__ void normalise(const HeadNorm& norm, uint32_t) {
        float squares = 0.0f;
#pragma unroll
        for (int i = 0; i < kPer; ++i) squares += values[i] * values[i];
        const float factor = rsqrtf(warp_sum(squares) / kDim + norm.eps);
#pragma unroll
        for (int i = 0; i < kPer; ++i) values[i] *= factor * number(norm.weight, norm.wide, first() + i);
    }

    __device__ __forceinline__ void rotate(const float* angles, uint32_t, float*) {
        const bool lower = threadIdx.x % 32 < 16;
#pragma unroll
        for (int i = 0; i < kPer; ++i) {
            const uint32_t pair = threadIdx.x % 16 * kPer + i;
            const float other = __shfl_xor_sync(0xffffffffu, values[i], 16);
            const float sine = angles[kDim / 2 + pair];
            values[i] = values[i] * angles[pair] + other * (lower ? -sine : sine);
        }
    }

    __device__ __forceinline__ void store(bf16* to, uint32_t) const {
        __nv_bfloat162 pairs[kPer / 2];
#pragma unroll
        for (int i = 0; i < kPer / 2; ++i) pairs[i] = __floats2bfloat162_rn(values[2 * i], values[2 * i + 1]);
        if constexpr (kPer == 2) *reinterpret_cast<uint32_t*>(to + first()) = *reinterpret_cast<const uint32_t*>(pairs);
        if constexpr (kPer == 4) *reinterpret_cast<uint2*>(to + first()) = *reinterpret_cast<const uint2*>(pairs);
        if constexpr (kPer == 8) *reinterpret_cast<uint4*>(to + first()) = *reinterpret_cast<const uint4*>(pairs);
    }

    __device__ __forceinline__ void store_narrow(__nv_fp8_e4m3* to, uint32_t) const {
#pragma unroll
        for (int i = 0; i < kPer; ++i) to[first() + i] = __nv_fp8_e4m3(values[i]);
    }
};

// A head of any size up to 256: lane l holds every 32nd element, and pairs meet in shared memory.
struct OddHead {
    float values[kWidest / 32];

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

template <typename Head>
__device__ __forceinline__ void run(const RopeParams& p, uint32_t token, uint32_t number_of_head, float* line) {
    const float* angles = p.rotated ? p.table + static_cast<size_t>(p.positions[token]) * p.rotated : nullptr;
    Head head;
    if (number_of_head < p.query_heads) {
        bf16* query = p.query + static_cast<size_t>(token) * p.query_stride + number_of_head * p.head_dim;
        head.load(query, p.head_dim);
        if (p.query_norm) head.normalise({p.query_norm, p.query_eps, p.wide_norms}, p.head_dim);
        if (p.rotated) head.rotate(angles, p.rotated, line);
        head.store(query, p.head_dim);
        return;
    }
    const uint32_t kv_head = (number_of_head - p.query_heads) % p.kv_heads, slot = p.slots[token];
    if (number_of_head < p.query_heads + p.kv_heads) {
        bf16* key = p.key + static_cast<size_t>(token) * p.key_stride + kv_head * p.head_dim;
        head.load(key, p.head_dim);
        if (p.key_norm) head.normalise({p.key_norm, p.key_eps, p.wide_norms}, p.head_dim);
        if (p.rotated) {
            head.rotate(angles, p.rotated, line);
            head.store(key, p.head_dim);
        }
        cache(p, head, p.keys, slot, kv_head);
    } else {
        head.load(p.value + static_cast<size_t>(token) * p.value_stride + kv_head * p.head_dim, p.head_dim);
        cache(p, head, p.values, slot, kv_head);
    }
}

extern "C" __global__ void __launch_bounds__(32 * kWarps) rope_store_kv(const __grid_constant__ RopeParams p) {
    __shared__ float lines[kWarps][kWidest];
    const uint32_t heads = p.query_heads + 2 * p.kv_heads;
    const uint32_t warp = blockIdx.x * kWarps + threadIdx.x / 32, token = warp / heads, head = warp % heads;
    begin_after_predecessor();
    if (token >= p.tokens) return;
    float* line = lines[threadIdx.x / 32];
    if (p.even && p.head_dim == 128) {
        run<EvenHead<4>>(p, token, head, line);
    } else if (p.even && p.head_dim == 64) {
        run<EvenHead<2>>(p, token, head, line);
    } else if (p.even && p.head_dim == 256) {
        run<EvenHead<8>>(p, token, head, line);
    } else {
        run<OddHead>(p, token, head, line);
    }
}
