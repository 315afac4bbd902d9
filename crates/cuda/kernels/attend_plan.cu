// What every worker of `attend_stream` does, found once for all layers that have the same batch.
//
// Later kernels read plans before they wait: none is let in before all plans are there.
#include "attend/stream_plan.cuh"
#include "common/order.cuh"

template <int kColumns>
__device__ void plan_attention(const PlanParams& p) {
    __shared__ WorkBefore before;
    const uint32_t worker = blockIdx.x * kPlanners + threadIdx.x / 32, lane = threadIdx.x % 32;
    // The kernel before finds homes.
    if (p.attend.homes) wait_for_predecessor();
    StreamPlanner<kColumns> planner(p, before);
    planner.add_up();
    const StreamPlan plan = planner.plan(min(worker, p.attend.workers - 1));
    // Earlier kernels may still read what was planned before.
    wait_for_predecessor();
    if (worker >= p.attend.workers) return;
    if (lane < 16) p.plans[worker].slots[lane] = plan.slots[0];
    if (lane == 0) {
        uint4* header = reinterpret_cast<uint4*>(p.plans + worker);
        header[0] = make_uint4(plan.origin, plan.end, plan.first_token, plan.block);
        header[1] = make_uint4(plan.fresh, plan.length, plan.pages, plan.row);
        header[2] = make_uint4(plan.begin, plan.name, 0, 0);
    }
    __threadfence();
}

#define PLAN_ATTENTION(columns)                                                                        \
    extern "C" __global__ void __launch_bounds__(32 * kPlanners)                                       \
        plan_attention_##columns(const __grid_constant__ PlanParams p) {                               \
        plan_attention<columns>(p);                                                                    \
    }

PLAN_ATTENTION(8)
PLAN_ATTENTION(16)
