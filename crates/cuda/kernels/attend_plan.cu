// What every worker of `attend_stream` does, found once for all layers that have the same batch.
//
// Later kernels read plans before they wait: none is let in before all plans are there.
#include "attend/stream_plan.cuh"
#include "common/order.cuh"

extern "C" __global__ void __launch_bounds__(kPlanThreads) plan_attention(const __grid_constant__ PlanParams p) {
    __shared__ WorkBefore before;
    const uint32_t worker = blockIdx.x * kPlanners + threadIdx.x / 32, lane = threadIdx.x % 32;
    // The kernel before finds homes.
    if (p.attend.homes) wait_for_predecessor();
    StreamPlanner planner(p, before);
    planner.add_up();
    const StreamPlan plan = planner.plan(min(worker, p.attend.workers - 1));
    // Earlier kernels may still read what was planned before.
    wait_for_predecessor();
    if (worker >= p.attend.workers) return;
    if (lane < kPlannedRuns) p.plans[worker].slots[lane] = plan.slots[0];
    if (lane == 0) {
        uint4* header = reinterpret_cast<uint4*>(p.plans + worker);
        header[0] = make_uint4(plan.origin, plan.end, plan.first_token, plan.block);
        header[1] = make_uint4(plan.fresh, plan.length, plan.pages, plan.row);
        header[2] = make_uint4(plan.begin, plan.name, 0, 0);
    }
    __threadfence();
}
