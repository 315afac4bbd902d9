// Opens a captured step: its tokens, their embeddings, the first norm, and the plan of attention, which needs none of them.
//
// Launched when everything before it has ended. Plans are read early: it lets nobody begin before it has ended itself, unless
// that one keeps those behind it waiting.
#include "attend/stream_plan.cuh"
#include "common/bf16.cuh"
#include "common/number.cuh"
#include "common/order.cuh"
#include "common/reduce.cuh"
#include "common/resolve.cuh"

struct OpenParams {
    // Nobody is planned for where no attention of the step asked for it.
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
    // Blocks that plan; those behind them take a token each.
    uint32_t planning;
    // The next one may begin.
    uint32_t early;
    float eps;
};

// Pieces of eight elements that a thread has at most.
constexpr int kPieces = 4;

// A token's row: the same sums in the same order as those of `rms_norm_short`, whose threads have a piece each.
__device__ __forceinline__ void open_row(const OpenParams& p, uint32_t row, float (&sums)[32]) {
    const uint32_t warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    float weights[kPieces][8], values[kPieces][8];
    // On their way while the token is found.
#pragma unroll
    for (int i = 0; i < kPieces; ++i) {
        const uint32_t at = (threadIdx.x + i * kPlanThreads) * 8;
        if (at < p.width) numbers(p.norm, p.wide_norm, at, weights[i]);
    }
    const uint32_t token = p.tokens.token(row);
    if (threadIdx.x == 0) p.tokens.out[row] = token;
#pragma unroll
    for (int i = 0; i < kPieces; ++i) {
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
    for (int i = 0; i < kPieces; ++i) {
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
    if (p.early) let_successor_begin();
    if (blockIdx.x < p.planning) {
        plan_workers(p.plan, blockIdx.x, shared.before, [] {});
    } else {
        open_row(p, blockIdx.x - p.planning, shared.sums);
    }
}
