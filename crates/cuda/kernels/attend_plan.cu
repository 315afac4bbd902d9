// What every worker of `attend_stream` does, found once for all layers that have the same batch.
//
// One warp a worker. Later kernels read plans before they wait: none is let in before all plans are there.
#include "attend/stream_share.cuh"
#include "common/order.cuh"

struct PlanParams {
    AttendParams attend;
    StreamPlan* plans;
    uint32_t columns;
    // Positions that one copy brings.
    uint32_t run;
};

// The slot of this lane's run of the first unit, where anyone sees it.
__device__ uint32_t first_slot(const PlanParams& p, const StreamShare& share, uint32_t chunk) {
    const AttendParams& a = p.attend;
    const uint32_t column = share.block * p.columns, last = min(share.sequence.fresh * a.group, column + p.columns) - 1;
    const Sight sight = Sight::of(a, share.sequence.old(), column / a.group, last / a.group);
    const uint32_t first = sight.first_of(first_unit_of(chunk), first_unit_of(chunk + 1)) * kUnit;
    const uint32_t run = threadIdx.x % 32 * p.run, position = first + run;
    if (run >= sight.end_in(first) || run + p.run <= sight.begin_in(first)) return 0;
    return share.sequence.pages[position / a.page_size] * a.page_size + position % a.page_size;
}

extern "C" __global__ void __launch_bounds__(128) plan_attention(const __grid_constant__ PlanParams p) {
    const uint32_t worker = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32, lane = threadIdx.x % 32;
    // The kernel before finds homes.
    if (p.attend.homes) wait_for_predecessor();
    StreamShare share{};
    uint32_t slot = 0;
    if (worker < p.attend.workers) {
        share = find_share(p.attend, worker, p.columns);
        const uint32_t chunk = settle_chunk(p.attend, worker, p.columns, share);
        if (share.origin < share.end) slot = first_slot(p, share, chunk);
    }
    // Earlier kernels may still read what was planned before.
    wait_for_predecessor();
    if (worker >= p.attend.workers) return;
    StreamPlan& plan = p.plans[worker];
    if (lane < 16) plan.slots[lane] = slot;
    if (lane == 0) {
        const Sequence& sequence = share.sequence;
        const auto pages = static_cast<uint32_t>(sequence.pages - p.attend.page_table);
        uint4* header = reinterpret_cast<uint4*>(&plan);
        header[0] = make_uint4(share.origin, share.end, sequence.first_token, share.block);
        header[1] = make_uint4(sequence.fresh, sequence.length, pages, share.row);
        header[2] = make_uint4(share.begin, share.name, 0, 0);
    }
    __threadfence();
}
