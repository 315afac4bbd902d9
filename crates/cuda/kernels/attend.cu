// Attention of every new token over its own sequence, keys and values read through the page table.
//
// One block a (token, query head); its warps take every fourth position and meet in shared memory.
#include "common/bf16.cuh"
#include "common/reduce.cuh"

struct AttendParams {
    const bf16* query;
    const void* keys;
    const void* values;
    const uint32_t* starts;
    const uint32_t* lengths;
    const uint32_t* table_rows;
    const uint32_t* page_table;
    const float* sinks;
    bf16* out;
    uint32_t query_stride;
    uint32_t out_stride;
    uint32_t table_stride;
    uint32_t rows;
    uint32_t page_size;
    uint32_t query_heads;
    uint32_t kv_heads;
    uint32_t head_dim;
    uint32_t window;
    uint32_t fp8;
    float scale;
    float soft_cap;
};

constexpr int kWarps = 4;
constexpr int kPerLane = 8;

__device__ __forceinline__ float cached(const void* cache, size_t at, bool fp8) {
    return fp8 ? static_cast<float>(static_cast<const __nv_fp8_e4m3*>(cache)[at])
               : __bfloat162float(static_cast<const bf16*>(cache)[at]);
}

// The sequence that a token of the step belongs to.
__device__ uint32_t row_of(const AttendParams& p, uint32_t token) {
    uint32_t low = 0, high = p.rows;
    while (high - low > 1) {
        const uint32_t middle = (low + high) / 2;
        if (p.starts[middle] <= token) low = middle; else high = middle;
    }
    return low;
}

extern "C" __global__ void __launch_bounds__(32 * kWarps) attend(const __grid_constant__ AttendParams p) {
    __shared__ float maxima[kWarps], totals[kWarps], mixed[kWarps][32 * kPerLane];
    begin_after_predecessor();
    const uint32_t token = blockIdx.x, head = blockIdx.y, lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const uint32_t row = row_of(p, token), dim = p.head_dim;
    const uint32_t position = p.lengths[row] - (p.starts[row + 1] - token);
    const uint32_t oldest = position + 1 > p.window ? position + 1 - p.window : 0;
    const uint32_t* pages = p.page_table + static_cast<size_t>(p.table_rows[row]) * p.table_stride;
    const uint32_t kv_head = head / (p.query_heads / p.kv_heads);
    const bf16* query = p.query + static_cast<size_t>(token) * p.query_stride + head * dim;
    float q[kPerLane], sum[kPerLane] = {};
#pragma unroll
    for (int i = 0; i < kPerLane; ++i) {
        const uint32_t at = lane + 32 * i;
        q[i] = at < dim ? __bfloat162float(query[at]) * p.scale : 0.0f;
    }
    float max = -INFINITY, total = 0.0f;
    for (uint32_t at = oldest + warp; at <= position; at += kWarps) {
        const size_t slot = static_cast<size_t>(pages[at / p.page_size]) * p.page_size + at % p.page_size;
        const size_t offset = (slot * p.kv_heads + kv_head) * dim;
        float score = 0.0f;
#pragma unroll
        for (int i = 0; i < kPerLane; ++i) {
            if (lane + 32 * i < dim) score += q[i] * cached(p.keys, offset + lane + 32 * i, p.fp8);
        }
        score = warp_sum(score);
        if (p.soft_cap > 0.0f) score = p.soft_cap * tanhf(score / p.soft_cap);
        const float larger = fmaxf(max, score);
        const float kept = __expf(max - larger), weight = __expf(score - larger);
        total = total * kept + weight;
        max = larger;
#pragma unroll
        for (int i = 0; i < kPerLane; ++i) {
            if (lane + 32 * i < dim) sum[i] = sum[i] * kept + weight * cached(p.values, offset + lane + 32 * i, p.fp8);
        }
    }
#pragma unroll
    for (int i = 0; i < kPerLane; ++i) mixed[warp][lane + 32 * i] = sum[i];
    if (lane == 0) {
        maxima[warp] = max;
        totals[warp] = total;
    }
    __syncthreads();
    float largest = p.sinks ? p.sinks[head] : -INFINITY;
    for (int i = 0; i < kWarps; ++i) largest = fmaxf(largest, maxima[i]);
    float all = p.sinks ? __expf(p.sinks[head] - largest) : 0.0f;
    for (int i = 0; i < kWarps; ++i) all += totals[i] * __expf(maxima[i] - largest);
    for (uint32_t at = threadIdx.x; at < dim; at += blockDim.x) {
        float value = 0.0f;
        for (int i = 0; i < kWarps; ++i) value += mixed[i][at] * __expf(maxima[i] - largest);
        p.out[static_cast<size_t>(token) * p.out_stride + head * dim + at] = __float2bfloat16(value / all);
    }
}
