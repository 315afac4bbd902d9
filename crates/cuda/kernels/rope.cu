// Normalises query and key heads if asked, rotates them by position, and stores keys and values into pages.
//
// One warp a head of one token. Query heads are rotated in place; key and value heads go to the cache as well.
#include "common/bf16.cuh"
#include "common/reduce.cuh"

struct RopeParams {
    bf16* query;
    bf16* key;
    const bf16* value;
    const float* query_norm;
    const float* key_norm;
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
};

// Up to 256 elements a head: eight a lane.
constexpr int kPerLane = 8;

struct Head {
    float values[kPerLane];
};

__device__ __forceinline__ Head load_head(const bf16* from, int dim) {
    Head head;
#pragma unroll
    for (int i = 0; i < kPerLane; ++i) {
        const int at = threadIdx.x % 32 + 32 * i;
        head.values[i] = at < dim ? __bfloat162float(from[at]) : 0.0f;
    }
    return head;
}

__device__ __forceinline__ void normalise_head(Head& head, const float* weight, float eps, int dim) {
    float squares = 0.0f;
#pragma unroll
    for (int i = 0; i < kPerLane; ++i) squares += head.values[i] * head.values[i];
    const float factor = rsqrtf(warp_sum(squares) / dim + eps);
#pragma unroll
    for (int i = 0; i < kPerLane; ++i) {
        const int at = threadIdx.x % 32 + 32 * i;
        if (at < dim) head.values[i] = __bfloat162float(__float2bfloat16(head.values[i] * factor * weight[at]));
    }
}

// Pairs (i, i + rotated / 2): both lie in one lane when rotated / 2 is a multiple of 32, else they travel by shuffles
// through shared memory; `line` is this warp's.
__device__ __forceinline__ void rotate_head(Head& head, const float* angles, int rotated, float* line) {
    const int half = rotated / 2, lane = threadIdx.x % 32;
#pragma unroll
    for (int i = 0; i < kPerLane; ++i) line[lane + 32 * i] = head.values[i];
    __syncwarp();
#pragma unroll
    for (int i = 0; i < kPerLane; ++i) {
        const int at = lane + 32 * i;
        if (at >= rotated) continue;
        const int pair = at < half ? at : at - half;
        const float cos = angles[pair], sin = angles[half + pair];
        const float other = at < half ? -line[at + half] : line[at - half];
        head.values[i] = head.values[i] * cos + other * sin;
    }
    __syncwarp();
}

__device__ __forceinline__ void store_head(const Head& head, bf16* to, int dim) {
#pragma unroll
    for (int i = 0; i < kPerLane; ++i) {
        const int at = threadIdx.x % 32 + 32 * i;
        if (at < dim) to[at] = __float2bfloat16(head.values[i]);
    }
}

__device__ __forceinline__ void store_cached(const Head& head, void* cache, size_t offset, int dim, bool fp8) {
#pragma unroll
    for (int i = 0; i < kPerLane; ++i) {
        const int at = threadIdx.x % 32 + 32 * i;
        if (at >= dim) continue;
        if (fp8) {
            static_cast<__nv_fp8_e4m3*>(cache)[offset + at] = __nv_fp8_e4m3(head.values[i]);
        } else {
            static_cast<bf16*>(cache)[offset + at] = __float2bfloat16(head.values[i]);
        }
    }
}

extern "C" __global__ void __launch_bounds__(256) rope_store_kv(const __grid_constant__ RopeParams p) {
    __shared__ float lines[8][32 * kPerLane];
    const uint32_t heads = p.query_heads + 2 * p.kv_heads;
    const uint32_t warp = blockIdx.x * 8 + threadIdx.x / 32;
    const uint32_t token = warp / heads, head = warp % heads;
    begin_after_predecessor();
    if (token >= p.tokens) return;
    const int dim = p.head_dim;
    float* line = lines[threadIdx.x / 32];
    const float* angles = p.rotated ? p.table + static_cast<size_t>(p.positions[token]) * p.rotated : nullptr;
    if (head < p.query_heads) {
        bf16* query = p.query + static_cast<size_t>(token) * p.query_stride + head * dim;
        Head values = load_head(query, dim);
        if (p.query_norm) normalise_head(values, p.query_norm, p.query_eps, dim);
        rotate_head(values, angles, p.rotated, line);
        store_head(values, query, dim);
        return;
    }
    const uint32_t kv_head = (head - p.query_heads) % p.kv_heads;
    const size_t offset = (static_cast<size_t>(p.slots[token]) * p.kv_heads + kv_head) * dim;
    if (head < p.query_heads + p.kv_heads) {
        bf16* key = p.key + static_cast<size_t>(token) * p.key_stride + kv_head * dim;
        Head values = load_head(key, dim);
        if (p.key_norm) normalise_head(values, p.key_norm, p.key_eps, dim);
        if (p.rotated) {
            rotate_head(values, angles, p.rotated, line);
            store_head(values, key, dim);
        }
        store_cached(values, p.keys, offset, dim, p.fp8);
    } else {
        const bf16* value = p.value + static_cast<size_t>(token) * p.value_stride + kv_head * dim;
        store_cached(load_head(value, dim), p.values, offset, dim, p.fp8);
    }
}
