// A worker's share of the chunks: a contiguous range over (row, block of columns, chunk), equal for all workers to a chunk.
#pragma once
#include "../common/copy.cuh"
#include "../common/shares.cuh"
#include "chunks.cuh"

// Begin and end of a worker's share in units, and the row in which it begins.
struct Share {
    uint32_t begin;
    uint32_t end;
    uint32_t total;
    uint32_t row;
    uint32_t row_offset;
    Sequence sequence;
};

// The whole block sums up the work of all rows; `scratch` holds 16 words. Ends with a barrier.
template <int kThreads>
__device__ Share find_share(const AttendParams& p, uint32_t worker, uint32_t columns, volatile uint32_t* scratch) {
    const uint32_t each = (p.rows + kThreads - 1) / kThreads, first = threadIdx.x * each;
    const uint32_t last = min(first + each, p.rows);
    const Sequence opening = Sequence::load(p, first);
    uint32_t mine = RowWork::of(p, opening, columns).all();
    for (uint32_t row = first + 1; row < last; ++row) mine += RowWork::of(p, Sequence::load(p, row), columns).all();
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
    const Shares shares(total, p.workers);
    share.begin = shares.begin(worker);
    share.end = shares.begin(worker + 1);
    if (before <= share.begin && share.begin < before + mine) {
        uint32_t row = first;
        Sequence sequence = opening;
        for (; row + 1 < last; sequence = Sequence::load(p, ++row)) {
            const uint32_t all = RowWork::of(p, sequence, columns).all();
            if (share.begin < before + all) break;
            before += all;
        }
        scratch[10] = row;
        scratch[11] = before;
        scratch[12] = sequence.first_token;
        scratch[13] = sequence.fresh;
        scratch[14] = sequence.length;
        scratch[15] = static_cast<uint32_t>(sequence.pages - p.page_table);
    }
    __syncthreads();
    share.row = scratch[10];
    share.row_offset = scratch[11];
    share.sequence = {scratch[12], scratch[13], scratch[14], p.page_table + scratch[15]};
    __syncthreads();
    return share;
}

// Positions that a block of columns sees: from the oldest that any column sees to the end of what the last one sees, and
// those in between that all of them see.
struct Sight {
    uint32_t oldest;
    uint32_t end;
    uint32_t whole_begin;
    uint32_t whole_end;

    // `first`, `last`: numbers of the new tokens of the first and the last column.
    __device__ static Sight of(const AttendParams& p, uint32_t old, uint32_t first_token, uint32_t last_token) {
        Sight sight;
        sight.whole_end = old + first_token + 1;
        sight.end = old + last_token + 1;
        sight.oldest = sight.whole_end > p.window ? sight.whole_end - p.window : 0;
        sight.whole_begin = sight.end > p.window ? sight.end - p.window : 0;
        return sight;
    }

    // The first visible unit of a chunk's range and the end of the visible ones. A chunk with nothing visible still has one
    // unit.
    __device__ uint32_t first_of(uint32_t opening, uint32_t next) const {
        const uint32_t first = max(opening, oldest / kUnit);
        return first < end_unit(next) ? first : opening;
    }
    __device__ uint32_t end_unit(uint32_t next) const { return min(next, (end + kUnit - 1) / kUnit); }

    // Visible positions of a unit, counted from its first position.
    __device__ uint32_t begin_in(uint32_t first) const { return min(max(oldest, first) - first, kUnit); }
    __device__ uint32_t end_in(uint32_t first) const { return end > first ? min(end - first, kUnit) : 0; }
};

// A position in the list of chunks.
struct Cursor {
    uint32_t row;
    uint32_t row_offset;
    uint32_t block;
    uint32_t chunk;
    uint32_t end_chunk;
    Sequence sequence;
    RowWork work;
    Sight sight;

    // The first chunk that begins at or after the share's begin.
    __device__ static Cursor seek(const AttendParams& p, const Share& share, uint32_t columns) {
        Cursor cursor;
        cursor.row = share.row;
        cursor.row_offset = share.row_offset;
        cursor.enter(p, share.sequence, columns);
        const uint32_t within = share.begin - share.row_offset;
        cursor.block = within / cursor.work.units;
        const uint32_t unit = cursor.work.first_unit + within % cursor.work.units;
        cursor.chunk = chunk_of_unit(unit);
        cursor.look(p, columns);
        if (first_unit_of(cursor.chunk) < unit) cursor.advance(p, columns);
        return cursor;
    }

    __device__ void advance(const AttendParams& p, uint32_t columns) {
        if (++chunk >= end_chunk) *this = next_block(p, *this, columns);
    }

    // Where the row and block begin, and where the chunk begins, in units of all work.
    __device__ uint32_t origin() const { return row_offset + block * work.units; }
    __device__ uint32_t place() const { return origin() + first_unit_of(chunk) - work.first_unit; }
    __device__ bool live(const AttendParams& p, const Share& share) const { return row < p.rows && place() < share.end; }

private:
    __device__ void look(const AttendParams& p, uint32_t columns) {
        sight = {};
        if (sequence.fresh == 0) return;
        const uint32_t last = min(sequence.fresh * p.group, (block + 1) * columns) - 1;
        sight = Sight::of(p, sequence.old(), block * columns / p.group, last / p.group);
    }

    // Loads a row.
    __device__ void enter(const AttendParams& p, const Sequence& entered, uint32_t columns) {
        sequence = entered;
        work = RowWork::of(p, sequence, columns);
        block = 0;
        end_chunk = work.end_chunk();
    }

    // The first chunk of the next block of columns that has any. Rare, so kept out of the loop's code.
    __device__ __noinline__ static Cursor next_block(const AttendParams& p, Cursor cursor, uint32_t columns) {
        ++cursor.block;
        while (cursor.row < p.rows && cursor.block >= cursor.work.blocks) {
            cursor.row_offset += cursor.work.all();
            ++cursor.row;
            cursor.enter(p, Sequence::load(p, cursor.row), columns);
        }
        cursor.chunk = cursor.work.first_chunk();
        cursor.look(p, columns);
        return cursor;
    }
};
