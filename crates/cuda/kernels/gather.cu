// Small integer tables, and row gathers: tokens, pages, embeddings, hidden states.
#include "common/bf16.cuh"
#include "common/order.cuh"
#include "common/resolve.cuh"

// Opens a step: launched when everything before it has ended, so that later kernels may read its inputs early.
extern "C" __global__ void resolve_tokens(const __grid_constant__ ResolveParams p) {
    launch_and_wait_on_dependent_grids();
    const uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < p.tokens) p.out[i] = p.token(i);
}

struct UpdatePagesParams {
    const uint32_t* rows;
    const uint32_t* columns;
    const uint32_t* pages;
    uint32_t* table;
    uint32_t stride;
    uint32_t count;
};

extern "C" __global__ void update_pages(const __grid_constant__ UpdatePagesParams p) {
    launch_and_wait_on_dependent_grids();
    const uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < p.count) p.table[static_cast<size_t>(p.rows[i]) * p.stride + p.columns[i]] = p.pages[i];
}

struct CountParams {
    const uint32_t* clear;
    const uint32_t* rows;
    const uint32_t* tokens;
    uint16_t* counts;
    uint32_t vocabulary;
    uint32_t clears;
    uint32_t count;
};

extern "C" __global__ void clear_counts(const __grid_constant__ CountParams p) {
    launch_and_wait_on_dependent_grids();
    uint16_t* row = p.counts + static_cast<size_t>(p.clear[blockIdx.x]) * p.vocabulary;
    for (uint32_t i = threadIdx.x; i < p.vocabulary; i += blockDim.x) row[i] = 0;
}

// One thread per token. A row may produce one token many times: lanes with the same one are aggregated, then added by one
// atomic compare-and-swap; the result does not depend on the order.
extern "C" __global__ void count_tokens(const __grid_constant__ CountParams p) {
    launch_and_wait_on_dependent_grids();
    const uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
    const bool counts = i < p.count;
    const unsigned long long place = counts ? static_cast<unsigned long long>(p.rows[i]) * p.vocabulary + p.tokens[i] : ~0ull;
    const uint32_t same = __match_any_sync(0xffffffffu, place);
    if (!counts || threadIdx.x % 32 != __ffs(static_cast<int>(same)) - 1) return;
    for (uint16_t seen = p.counts[place]; seen != 0xffff;) {
        const uint32_t sum = min(seen + static_cast<uint32_t>(__popc(same)), 0xffffu);
        const uint16_t found = atomicCAS(p.counts + place, seen, static_cast<uint16_t>(sum));
        if (found == seen) break;
        seen = found;
    }
}

struct GatherParams {
    const bf16* x;
    const uint32_t* indices;
    bf16* out;
    uint32_t x_stride;
    uint32_t out_stride;
    uint32_t width;
    uint32_t vectors;
};

// One block per row. Serves the embedding too: its table is a matrix like any other.
extern "C" __global__ void __launch_bounds__(256) gather_rows(const __grid_constant__ GatherParams p) {
    launch_and_wait_on_dependent_grids();
    const bf16* from = p.x + static_cast<size_t>(p.indices[blockIdx.x]) * p.x_stride;
    bf16* to = p.out + static_cast<size_t>(blockIdx.x) * p.out_stride;
    if (p.vectors) {
        for (uint32_t i = threadIdx.x * 8; i < p.width; i += blockDim.x * 8) store8(to + i, load8(from + i));
    } else {
        for (uint32_t i = threadIdx.x; i < p.width; i += blockDim.x) to[i] = from[i];
    }
}

struct ScaleParams {
    bf16* rows;
    uint32_t stride;
    uint32_t width;
    float factor;
};

// rows *= factor, in place: embeddings of models that scale them.
extern "C" __global__ void scale_rows(const __grid_constant__ ScaleParams p) {
    launch_and_wait_on_dependent_grids();
    bf16* row = p.rows + static_cast<size_t>(blockIdx.x) * p.stride;
    for (uint32_t column = threadIdx.x; column < p.width; column += blockDim.x)
        row[column] = __float2bfloat16(p.factor * __bfloat162float(row[column]));
}
