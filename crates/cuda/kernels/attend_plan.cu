// What every worker of `attend_stream` does, found once for all layers that have the same batch.
//
// Later kernels read plans before they wait: none is let in before all plans are there.
#include "attend/stream_plan.cuh"
#include "common/order.cuh"

extern "C" __global__ void __launch_bounds__(kPlanThreads) plan_attention(const __grid_constant__ PlanParams p) {
    __shared__ WorkBefore before;
    // The kernel before finds homes.
    if (p.attend.homes) wait_for_predecessor();
    // Earlier kernels may still read what was planned before.
    plan_workers(p, blockIdx.x, before, [] { wait_for_predecessor(); });
}
