// A worker's share of the chunks: a contiguous run over (row, block of columns, chunk), equal for all workers to a chunk.
#pragma once
#include "../common/copy.cuh"
#include "chunks.cuh"

// Begin and end of a worker's share in units, and the row in which it begins.
struct Share {
    uint32_t begin;
    uint32_t end;
    uint32_t total;
    uint32_t row;
    uint32_t row_offset;
};

// Everyone in the block adds up the work of all rows; `scratch` holds 8 words. Ends with a barrier.
template <int kThreads>
__device__ Share find_share(const AttendParams& p, uint32_t worker, uint32_t columns, volatile uint32_t* scratch) {
    const uint32_t each = (p.rows + kThreads - 1) / kThreads, first = threadIdx.x * each;
    const uint32_t last = min(first + each, p.rows);
    uint32_t mine = 0;
    for (uint32_t row = first; row < last; ++row) mine += RowWork::of(p, Sequence::load(p, row), columns).all();
    uint32_t before = mine;
#pragma unroll
    for (int offset = 1; offset < 32; offset *= 2) {
        const uint32_t other = __shfl_up_sync(0xffffffffu, before, offset);
        if (threadIdx.x % 32 >= offset) before += other;
    }
    if (threadIdx.x % 32 == 31) scratch[threadIdx.x / 32] = before;
    __syncthreads();
    before -= mine;
    uint32_t total = 0;
#pragma unroll
    for (int warp = 0; warp < kThreads / 32; ++warp) {
        if (warp < threadIdx.x / 32) before += scratch[warp];
        total += scratch[warp];
    }
    Share share{};
    share.total = total;
    share.begin = static_cast<uint32_t>(static_cast<uint64_t>(total) * worker / p.workers);
    share.end = static_cast<uint32_t>(static_cast<uint64_t>(total) * (worker + 1) / p.workers);
    if (before <= share.begin && share.begin < before + mine) {
        uint32_t row = first;
        for (; row + 1 < last; ++row) {
            const uint32_t all = RowWork::of(p, Sequence::load(p, row), columns).all();
            if (share.begin < before + all) break;
            before += all;
        }
        scratch[6] = row;
        scratch[7] = before;
    }
    __syncthreads();
    share.row = scratch[6];
    share.row_offset = scratch[7];
    __syncthreads();
    return share;
}

// A place in the list of chunks.
struct Cursor {
    uint32_t row;
    uint32_t row_offset;
    uint32_t block;
    uint32_t chunk;
    Sequence sequence;
    RowWork work;

    // The first chunk that begins at or behind the share's begin.
    __device__ void seek(const AttendParams& p, const Share& share, uint32_t columns) {
        row = share.row;
        row_offset = share.row_offset;
        sequence = Sequence::load(p, row);
        work = RowWork::of(p, sequence, columns);
        const uint32_t within = share.begin - row_offset;
        block = within / work.units;
        const uint32_t unit = work.first_unit + within % work.units;
        chunk = chunk_of_unit(unit);
        if (first_unit_of(chunk) < unit) ++chunk;
        settle(p, columns);
    }

    __device__ void advance(const AttendParams& p, uint32_t columns) {
        ++chunk;
        settle(p, columns);
    }

    // Where the row and block begin, and where the chunk begins, in units of all work.
    __device__ uint32_t origin() const { return row_offset + block * work.units; }
    __device__ uint32_t place() const { return origin() + first_unit_of(chunk) - work.first_unit; }
    __device__ bool live(const AttendParams& p, const Share& share) const { return row < p.rows && place() < share.end; }

    // Positions that any column of the block sees.
    __device__ uint32_t oldest(const AttendParams& p, uint32_t columns) const {
        const uint32_t reach = sequence.old() + block * columns / p.group + 1;
        return reach > p.window ? reach - p.window : 0;
    }
    __device__ uint32_t visible_end(const AttendParams& p, uint32_t columns) const {
        const uint32_t last = min(sequence.fresh * p.group, (block + 1) * columns) - 1;
        return sequence.old() + last / p.group + 1;
    }

private:
    __device__ void settle(const AttendParams& p, uint32_t columns) {
        while (row < p.rows && chunk >= work.end_chunk()) {
            if (++block >= work.blocks) {
                row_offset += work.all();
                sequence = Sequence::load(p, ++row);
                work = RowWork::of(p, sequence, columns);
                block = 0;
            }
            chunk = work.first_chunk();
        }
    }
};
