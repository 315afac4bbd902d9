// A worker's share of the chunks, found by one warp.
#pragma once
#include "stream.cuh"

// A row and where its work begins among all work.
struct RowPlace {
    uint32_t row;
    uint32_t offset;
    Sequence sequence;
};

// Where shares begin: not a little before or behind a border between rows, as opening a row takes its time.
struct Borders {
    const AttendParams& p;
    uint32_t columns;
    uint32_t little;

    // The row in which a unit lies, from a row on that begins at or before it.
    __device__ RowPlace find(const Sequence& opening, uint32_t row, uint32_t offset, uint32_t unit) const {
        RowPlace place{row, offset, opening};
        for (;;) {
            const uint32_t all = RowWork::of(p, place.sequence, columns).all();
            if (unit < place.offset + all) return place;
            place.offset += all;
            place.sequence = Sequence::load(p, ++place.row);
        }
    }

    __device__ uint32_t settle(const RowPlace& place, uint32_t unit) const {
        const uint32_t units = RowWork::of(p, place.sequence, columns).units;
        const uint32_t within = (unit - place.offset) % units;
        if (within <= little) return unit - within;
        return units - within <= little ? unit - within + units : unit;
    }
};

// Where a worker's work begins and ends, in units of all work.
struct StreamShare {
    uint32_t begin;
    uint32_t end;
    // The row and block of columns in which it begins, where those begin, and their name where several blocks share them.
    uint32_t row;
    uint32_t block;
    uint32_t origin;
    uint32_t name;
    Sequence sequence;
};

__device__ inline StreamShare find_share(const AttendParams& p, uint32_t worker, uint32_t columns) {
    const uint32_t lane = threadIdx.x % 32, each = (p.rows + 31) / 32, first = lane * each;
    const uint32_t last = min(first + each, p.rows);
    const Sequence opening = Sequence::load(p, first);
    uint32_t mine = RowWork::of(p, opening, columns).all();
    for (uint32_t row = first + 1; row < last; ++row) mine += RowWork::of(p, Sequence::load(p, row), columns).all();
    uint32_t before = mine;
#pragma unroll 1
    for (int offset = 1; offset < 32; offset *= 2) {
        const uint32_t other = __shfl_up_sync(kAllLanes, before, offset);
        if (lane >= offset) before += other;
    }
    const uint32_t total = __shfl_sync(kAllLanes, before, 31);
    before -= mine;
    const Shares shares(total, p.workers);
    const Borders borders{p, columns, shares.each < 4 ? 0 : max(1u, shares.each / 12)};
    StreamShare share{};
    RowPlace place{};
    // The end settles first, then the begin; then the row is found in which it lies by now.
    uint32_t unit = shares.begin(worker + 1), source = 0;
#pragma unroll 1
    for (int turn = 0; turn < 3; ++turn) {
        const bool holds = before <= unit && unit < before + mine;
        const uint32_t lanes = __ballot_sync(kAllLanes, holds);
        uint32_t settled = unit;
        if (holds) {
            place = borders.find(opening, first, before, unit);
            settled = borders.settle(place, unit);
        }
        source = __ffs(static_cast<int>(lanes)) - 1;
        settled = lanes == 0 ? total : __shfl_sync(kAllLanes, settled, source);
        unit = settled;
        if (turn == 0) {
            share.end = settled;
            unit = shares.begin(worker);
        }
    }
    share.begin = share.origin = unit;
    if (unit == total) return share;
    const auto everyone = [&](uint32_t word) { return __shfl_sync(kAllLanes, word, source); };
    share.row = everyone(place.row);
    share.origin = everyone(place.offset);
    const uint32_t pages = everyone(static_cast<uint32_t>(place.sequence.pages - p.page_table));
    share.sequence = {everyone(place.sequence.first_token), everyone(place.sequence.fresh), everyone(place.sequence.length),
                      p.page_table + pages};
    const uint32_t units = RowWork::of(p, share.sequence, columns).units;
    share.block = (unit - share.origin) / units;
    share.origin += share.block * units;
    share.name = shares.owner(share.origin);
    return share;
}

// The begin of a share as those find it that do the work: its first chunk.
__device__ inline uint32_t settle_chunk(const AttendParams& p, uint32_t worker, uint32_t columns, StreamShare& share) {
    if (share.origin >= share.end) return 0;
    RowWork work = RowWork::of(p, share.sequence, columns);
    const uint32_t from = share.begin - share.origin + work.first_unit;
    uint32_t chunk = from == 0 ? 0 : chunk_of_unit(from - 1) + 1;
    if (chunk >= work.end_chunk()) {
        share.origin += work.units;
        // Of rows that begin in a share only the last one can be shared.
        share.name = worker;
        for (++share.block; share.block >= work.blocks && share.row < p.rows; share.block = 0) {
            share.sequence = Sequence::load(p, ++share.row);
            work = RowWork::of(p, share.sequence, columns);
        }
        chunk = work.first_chunk();
    }
    share.begin = share.origin + first_unit_of(chunk) - work.first_unit;
    if (share.begin >= share.end) share.origin = share.end;
    return chunk;
}
