// Widens e4m3 keys and values to bf16 for `attend_tiles`, which multiplies nothing else: those of sequences with many new tokens,
// one sequence after the other. Sequences that do not fit are left to the kernels for few tokens.
#include "attend/widened.cuh"
#include "common/float8.cuh"
#include "common/order.cuh"

constexpr uint32_t kThreads = 256;
constexpr uint32_t kMostRows = 2048;
// Positions that a warp takes at once, and vectors of eight elements that a lane has in flight.
constexpr uint32_t kPositions = 2;
constexpr uint32_t kVectors = 8;

struct WidenParams {
    AttendParams attend;
    bf16* keys;
    bf16* values;
    uint32_t* homes;
    // Pages that fit.
    uint32_t room;
};

// Pages that a sequence needs, from the first that any of its new tokens sees; none when it has few new tokens.
struct Need {
    uint32_t first;
    uint32_t pages;

    __device__ static Need of(const WidenParams& p, const Sequence& sequence) {
        if (sequence.fresh <= p.attend.few) return {0, 0};
        const uint32_t reach = sequence.old() + 1, oldest = reach > p.attend.window ? reach - p.attend.window : 0;
        const uint32_t first = oldest / kWidenedPage, pages = (sequence.length + kWidenedPage - 1) / kWidenedPage - first;
        return {first, pages <= p.room ? pages : 0};
    }
};

// The end of every row's pages, and the pages in use: rows are taken in list order until they do not fit.
struct Rooms {
    uint32_t ends[kMostRows];
    uint32_t warps[kThreads / 32];
    uint32_t used;

    // Every thread has some rows. Ends with a barrier.
    __device__ void find(const WidenParams& p) {
        const uint32_t each = (p.attend.rows + kThreads - 1) / kThreads, lane = threadIdx.x % 32;
        const uint32_t first = threadIdx.x * each, end = min(first + each, p.attend.rows);
        uint32_t mine = 0;
#pragma unroll 1
        for (uint32_t row = first; row < end; ++row) {
            mine += Need::of(p, Sequence::load(p.attend, row)).pages;
            ends[row] = mine;
        }
        uint32_t before = mine;
#pragma unroll
        for (int offset = 1; offset < 32; offset *= 2) {
            const uint32_t other = __shfl_up_sync(0xffffffffu, before, offset);
            if (lane >= offset) before += other;
        }
        if (lane == 31) warps[threadIdx.x / 32] = before;
        if (threadIdx.x == 0) used = 0;
        __syncthreads();
        before -= mine;
#pragma unroll 1
        for (uint32_t warp = 0; warp < threadIdx.x / 32; ++warp) before += warps[warp];
        uint32_t last = 0;
#pragma unroll 1
        for (uint32_t row = first; row < end; ++row) {
            ends[row] += before;
            if (ends[row] <= p.room) last = ends[row];
        }
        if (last > 0) atomicMax(&used, last);
        __syncthreads();
    }

    // The row that owns a page.
    __device__ uint32_t row_of(uint32_t page, uint32_t rows) const {
        uint32_t low = 0, high = rows - 1;
#pragma unroll 1
        while (low < high) {
            const uint32_t middle = (low + high) / 2;
            if (ends[middle] > page) {
                high = middle;
            } else {
                low = middle + 1;
            }
        }
        return low;
    }
};

__device__ __forceinline__ uint4 widen(uint2 codes) {
    uint32_t even[2], odd[2];
    widen_codes(codes.x, even[0], odd[0]);
    widen_codes(codes.y, even[1], odd[1]);
    return {__byte_perm(even[0], odd[0], 0x5410), __byte_perm(even[0], odd[0], 0x7632),
            __byte_perm(even[1], odd[1], 0x5410), __byte_perm(even[1], odd[1], 0x7632)};
}

// Some positions, by one warp: `slots` are theirs in the cache, `place` is the first one's destination.
__device__ __forceinline__ void widen_positions(const WidenParams& p, const uint32_t (&slots)[kPositions], uint32_t count,
                                                uint32_t place) {
    const uint32_t width = p.attend.kv_heads * p.attend.head_dim, vectors = width / 8, all = count * vectors;
    const auto* keys = static_cast<const uint8_t*>(p.attend.keys);
    const auto* values = static_cast<const uint8_t*>(p.attend.values);
#pragma unroll 1
    for (uint32_t first = threadIdx.x % 32; first < all; first += 32 * kVectors) {
        uint2 codes[2][kVectors];
#pragma unroll
        for (uint32_t i = 0; i < kVectors; ++i) {
            const uint32_t at = first + 32 * i;
            if (at >= all) continue;
            const bool second = at >= vectors;
            const size_t from = static_cast<size_t>(second ? slots[1] : slots[0]) * width + (second ? at - vectors : at) * 8;
            codes[0][i] = *reinterpret_cast<const uint2*>(keys + from);
            codes[1][i] = *reinterpret_cast<const uint2*>(values + from);
        }
#pragma unroll
        for (uint32_t i = 0; i < kVectors; ++i) {
            const uint32_t at = first + 32 * i;
            if (at >= all) continue;
            const size_t to = static_cast<size_t>(place) * width + at * 8;
            *reinterpret_cast<uint4*>(p.keys + to) = widen(codes[0][i]);
            *reinterpret_cast<uint4*>(p.values + to) = widen(codes[1][i]);
        }
    }
}

extern "C" __global__ void __launch_bounds__(kThreads, 4) attend_widen(const __grid_constant__ WidenParams p) {
    __shared__ Rooms rooms;
    launch_dependent_grids();
    rooms.find(p);
    // Before that, an earlier layer may still read these pages.
    wait_on_dependent_grids();
    const AttendParams& a = p.attend;
#pragma unroll 1
    for (uint32_t row = blockIdx.x * kThreads + threadIdx.x; row < a.rows; row += gridDim.x * kThreads) {
        const Need need = Need::of(p, Sequence::load(a, row));
        const bool fits = need.pages > 0 && rooms.ends[row] <= p.room;
        p.homes[row] = fits ? rooms.ends[row] - need.pages - need.first : kNowhere;
    }
    const uint32_t warps = gridDim.x * (kThreads / 32);
    constexpr uint32_t kUnits = kWidenedPage / kPositions;
#pragma unroll 1
    for (uint32_t unit = blockIdx.x * (kThreads / 32) + threadIdx.x / 32; unit < rooms.used * kUnits; unit += warps) {
        const uint32_t page = unit / kUnits, row = rooms.row_of(page, a.rows);
        const Sequence sequence = Sequence::load(a, row);
        const Need need = Need::of(p, sequence);
        const uint32_t within = page - (rooms.ends[row] - need.pages);
        const uint32_t position = (need.first + within) * kWidenedPage + unit % kUnits * kPositions;
        if (position >= sequence.length) continue;
        const uint32_t count = min(sequence.length - position, kPositions);
        uint32_t slots[kPositions];
#pragma unroll
        for (uint32_t i = 0; i < kPositions; ++i) {
            const uint32_t at = position + min(i, count - 1);
            slots[i] = sequence.pages[at / a.page_size] * a.page_size + at % a.page_size;
        }
        widen_positions(p, slots, count, page * kWidenedPage + position % kWidenedPage);
    }
}
