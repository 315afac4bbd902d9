// Plans of all workers of `attend_stream`, made once for all layers that have the same batch.
//
// Later kernels read plans before they wait, so dependents are launched only after all plans are written.
#include "attend/stream_plan.cuh"
#include "common/order.cuh"

extern "C" __global__ void __launch_bounds__(kPlanThreads) plan_attention(const __grid_constant__ PlanParams p) {
    __shared__ WorkBefore before;
    // The previous kernel writes the page offsets.
    if (p.attend.homes) wait_on_dependent_grids();
    // Earlier kernels may still read the previous plans.
    plan_workers(p, blockIdx.x, before, [] { wait_on_dependent_grids(); });
}
