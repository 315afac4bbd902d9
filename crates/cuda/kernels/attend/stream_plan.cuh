// Plans of `attend_stream`: where each worker begins and ends. The block sums up the work of all rows, then each warp plans for
// one worker, with all lanes alike.
#pragma once
#include "../common/memory.cuh"
#include "stream.cuh"

struct PlanParams {
    AttendParams attend;
    StreamPlan* plans;
    // Positions that one copy brings, and columns of the attention kernel.
    uint32_t run;
    uint32_t columns;
};

// Positions that a block could read in the time that a cut row costs.
constexpr uint32_t kCutting = 256;
constexpr int kPlanners = 8;
constexpr int kPlanThreads = 32 * kPlanners;

// Work before each thread's rows, and all work.
struct WorkBefore {
    uint32_t sums[kPlanThreads + 1];
    uint32_t parts[kPlanners];
    // The rows themselves where each thread has at most one: first token, new tokens, length, page table row.
    uint4 rows[kPlanThreads];
    // Then also the work per column block of each row.
    uint32_t positions[kPlanThreads];
};

struct StreamPlanner {
    const PlanParams& p;
    const AttendParams& a;
    WorkBefore& before;
    const uint32_t each;
    // The row that was loaded last, and where its work begins.
    uint32_t row = 0;
    uint32_t offset = 0;
    Sequence sequence{};
    RowWork work{};

    __device__ StreamPlanner(const PlanParams& params, WorkBefore& shared)
        : p(params), a(params.attend), before(shared), each((a.rows + kPlanThreads - 1) / kPlanThreads) {}

    // Sums up the work of all rows; ends with a barrier.
    __device__ void add_up() {
        const uint32_t thread = threadIdx.x, warp = thread / 32;
        const uint32_t last = min((thread + 1) * each, a.rows);
        uint32_t sum = 0;
#pragma unroll 1
        for (uint32_t number = thread * each; number < last; ++number) {
            sequence = Sequence::load(a, number);
            look(number);
            if (each == 1) keep(number);
            sum += work.all();
        }
#pragma unroll 1
        for (uint32_t offset = 1; offset < 32; offset *= 2) {
            const uint32_t other = __shfl_up_sync(kAllLanes, sum, offset);
            if (thread % 32 >= offset) sum += other;
        }
        if (thread % 32 == 31) before.parts[warp] = sum;
        __syncthreads();
#pragma unroll 1
        for (uint32_t other = 0; other < warp; ++other) sum += before.parts[other];
        before.sums[thread + 1] = sum;
        if (thread == 0) before.sums[0] = 0;
        __syncthreads();
    }

    __device__ StreamPlan plan(uint32_t worker) {
        const uint32_t total = before.sums[kPlanThreads];
        const Shares shares(total, a.workers);
        // Shares do not begin shortly before or after a border between rows, since opening a row takes time.
        const uint32_t little = shares.each < 4 ? 0 : max(1u, shares.each / 12);
        const uint32_t rows = whole_rows();
        StreamPlan plan{};
        uint32_t unit = 0, chunk = 0;
        // First the end is settled, then the begin, then its row is loaded; the next row where that one has no chunk left.
#pragma unroll 1
        for (int turn = 0; turn < 4; ++turn) {
            if (turn < 2) {
                const uint32_t number = worker + 1 - turn;
                unit = rows > 0 ? before.sums[number * rows] : shares.begin(number);
            }
            uint32_t settled = total;
            if (unit < total) {
                find(unit);
                const uint32_t within = (unit - offset) % work.units;
                plan.block = (unit - offset) / work.units;
                plan.origin = unit - within;
                settled = within <= little ? plan.origin : work.units - within <= little ? plan.origin + work.units : unit;
            }
            if (turn == 0) {
                plan.end = settled;
                continue;
            }
            unit = settled;
            if (turn == 1) continue;
            if (unit >= plan.end) break;
            plan.name = turn == 2 ? shares.owner(plan.origin) : worker;
            const uint32_t from = unit - plan.origin + work.first_unit;
            chunk = from == 0 ? 0 : chunk_of_unit(from - 1) + 1;
            if (chunk < work.end_chunk()) break;
            unit = plan.origin + work.units;
        }
        plan.begin = plan.origin + first_unit_of(chunk) - work.first_unit;
        if (unit >= plan.end || plan.begin >= plan.end) plan.origin = plan.end;
        plan.first_token = sequence.first_token;
        plan.fresh = sequence.fresh;
        plan.length = sequence.length;
        plan.pages = pages();
        plan.row = row;
        if (plan.origin < plan.end) plan.slots[0] = first_slot(plan.block * p.columns, chunk);
        return plan;
    }

private:
    // Whole rows per worker, the same number for each, where the largest share is then too large by less than cutting rows
    // would cost; else zero.
    __device__ uint32_t whole_rows() const {
        const uint32_t rows = a.rows / a.workers;
        if (each != 1 || rows * a.workers != a.rows) return 0;
        uint32_t most = 0, all = 0;
#pragma unroll 1
        for (uint32_t worker = threadIdx.x % 32; worker < a.workers; worker += 32) {
            uint32_t share = 0;
#pragma unroll 1
            for (uint32_t row = worker * rows; row < (worker + 1) * rows; ++row) share += before.positions[row];
            most = max(most, share);
            all += share;
        }
        const uint32_t mean = __reduce_add_sync(kAllLanes, all) / a.workers;
        return __reduce_max_sync(kAllLanes, most) <= mean + kCutting ? rows : 0;
    }

    // Prefetches the first lines of the row's page list, which the attention kernel reads.
    __device__ void keep(uint32_t number) {
        before.rows[number] = make_uint4(sequence.first_token, sequence.fresh, sequence.length, pages());
        before.positions[number] = work.units > 0 ? work.blocks * (sequence.length - work.first_unit * kUnit) : 0;
#pragma unroll 1
        for (uint32_t page = 0; page < 128 && page * a.page_size < sequence.length; page += 32) prefetch_l2(sequence.pages + page);
    }

    __device__ void look_at(uint32_t number) {
        if (each == 1) {
            const uint4 kept = before.rows[number];
            sequence = {kept.x, kept.y, kept.z, a.page_table + kept.w};
        } else {
            sequence = Sequence::load(a, number);
        }
        look(number);
    }

    __device__ void look(uint32_t number) {
        row = number;
        work = RowWork::of(a, sequence, p.columns);
    }

    __device__ uint32_t pages() const { return static_cast<uint32_t>(sequence.pages - a.page_table); }

    // Loads the row in which a unit lies.
    __device__ void find(uint32_t unit) {
        uint32_t thread = 0;
#pragma unroll 1
        for (uint32_t step = 16 * kPlanners; step > 0; step /= 2) {
            if (before.sums[thread + step] <= unit) thread += step;
        }
        offset = before.sums[thread];
#pragma unroll 1
        for (uint32_t number = thread * each;; ++number) {
            look_at(number);
            if (unit < offset + work.all()) return;
            offset += work.all();
        }
    }

    // The slot of this lane's run after the first unit's first one, where it is visible.
    __device__ uint32_t first_slot(uint32_t column, uint32_t chunk) const {
        const uint32_t last = min(sequence.fresh * a.group, column + p.columns) - 1;
        const Sight sight = Sight::of(a, sequence.old(), column / a.group, last / a.group);
        const uint32_t first = sight.first_of(first_unit_of(chunk), first_unit_of(chunk + 1)) * kUnit;
        const uint32_t position = first + threadIdx.x % 32 * p.run;
        if (position >= sight.end || position + p.run <= sight.oldest) return 0;
        return sequence.pages[position / a.page_size] * a.page_size + position % a.page_size;
    }
};

// The plans of a block, after those of the blocks before it. `before_writing` is called when all is found.
template <typename BeforeWriting>
__device__ __forceinline__ void plan_workers(const PlanParams& p, uint32_t block, WorkBefore& shared, BeforeWriting before_writing) {
    const uint32_t worker = block * kPlanners + threadIdx.x / 32, lane = threadIdx.x % 32;
    StreamPlanner planner(p, shared);
    planner.add_up();
    const StreamPlan plan = planner.plan(min(worker, p.attend.workers - 1));
    before_writing();
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
