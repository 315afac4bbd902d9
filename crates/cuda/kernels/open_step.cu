// Opens a captured step: tokens, embeddings, the first norm, and the attention plan, which needs none of them.
//
// Launched after everything before it has ended. Plans are read early: it launches dependents only at its end, unless the next
// kernel delays its own.
#include "attend/stream_plan.cuh"
#include "common/bf16.cuh"
#include "common/number.cuh"
#include "common/order.cuh"
#include "common/reduce.cuh"
#include "common/resolve.cuh"

struct OpenParams {
    // No plan where no attention of the step needs one.
    PlanParams plan;
    ResolveParams tokens;
    const bf16* table;
    bf16* residual;
    const void* norm;
    bf16* out;
    uint32_t table_stride;
    uint32_t residual_stride;
    uint32_t out_stride;
    uint32_t width;
    uint32_t wide_norm;
    // Blocks that plan; later blocks take a token each.
    uint32_t planning;
    // Launch dependents early.
    uint32_t early;
    float eps;
};

// Most 16-byte vectors of a thread.
constexpr int kVectors = 4;

// A token's row; same sums in the same order as `rms_norm_short`, whose threads have one vector each.
__device__ __forceinline__ void open_row(const OpenParams& p, uint32_t row, float (&sums)[32]) {
    const uint32_t warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    float weights[kVectors][8], values[kVectors][8];
    // Loaded while the token is found.
#pragma unroll
    for (int i = 0; i < kVectors; ++i) {
        const uint32_t at = (threadIdx.x + i * kPlanThreads) * 8;
        if (at < p.width) numbers(p.norm, p.wide_norm, at, weights[i]);
    }
    const uint32_t token = p.tokens.token(row);
    if (threadIdx.x == 0) p.tokens.out[row] = token;
#pragma unroll
    for (int i = 0; i < kVectors; ++i) {
        const uint32_t at = (threadIdx.x + i * kPlanThreads) * 8;
        float squares = 0.0f;
        if (at < p.width) {
            const Bf16x8 some = load8(p.table + static_cast<size_t>(token) * p.table_stride + at);
            store8(p.residual + static_cast<size_t>(row) * p.residual_stride + at, some);
            unpack8(some, values[i]);
#pragma unroll
            for (int j = 0; j < 8; ++j) squares += values[i][j] * values[i][j];
        }
        squares = warp_sum(squares);
        if (lane == 0) sums[i * kPlanners + warp] = squares;
    }
    __syncthreads();
    const float factor = rsqrtf(warp_sum(sums[lane]) / p.width + p.eps);
#pragma unroll
    for (int i = 0; i < kVectors; ++i) {
        const uint32_t at = (threadIdx.x + i * kPlanThreads) * 8;
        if (at >= p.width) break;
#pragma unroll
        for (int j = 0; j < 8; ++j) values[i][j] *= factor * weights[i][j];
        store8(p.out + static_cast<size_t>(row) * p.out_stride + at, pack8(values[i]));
    }
}

extern "C" __global__ void __launch_bounds__(kPlanThreads) open_step(const __grid_constant__ OpenParams p) {
    __shared__ union {
        WorkBefore before;
        float sums[32];
    } shared;
    if (p.early) launch_dependent_grids();
    if (blockIdx.x < p.planning) {
        plan_workers(p.plan, blockIdx.x, shared.before, [] {});
    } else {
        open_row(p, blockIdx.x - p.planning, shared.sums);
    }
}
