// The producer warp: loads the keys and values of the block's share and describes them to the computing warps.
#pragma once
#include "../common/order.cuh"
#include "stream.cuh"

template <typename Shape>
struct StreamProducer {
    static constexpr int kColumns = Shape::kColumns;
    const StreamParams& p;
    const AttendParams& a;
    const Shape& shape;
    const uint32_t head;
    const uint32_t lane = threadIdx.x % 32;
    const EvictFirst evict_first;
    // What this step stores is read from the cache only when an earlier kernel stored it.
    bool waited;
    uint32_t known = 0;
    // The plan has slots of runs of this row, from the first unit's on, one per lane.
    bool is_planned = true;
    uint32_t planned_from;
    uint32_t planned_slot;
    uint32_t shared_rows = 0;
    FixedPipelineState<Shape::kBuffers> at;
    // Buffers that may be filled before one is released, and the next one to be released.
    uint32_t ahead = Shape::kBuffers;
    FixedPipelineState<Shape::kBuffers> next_free;

    __device__ StreamProducer(const StreamParams& params, const Shape& shared, uint32_t kv_head)
        : p(params), a(params.attend), shape(shared), head(kv_head), waited(params.fresh.slots != nullptr) {}

    __device__ void run(const StreamStart& start, uint32_t worker) {
        const auto& [place, rest, first, slots] = start;
        Share share{place.x, place.y, place.w, first.x, first.y, {place.z, rest.x, rest.y, a.page_table + rest.z}};
        uint32_t row = rest.w;
        planned_slot = slots;
#pragma unroll 1
        while (share.origin < share.end && row < a.rows) {
            const RowWork work = RowWork::of(a, share.sequence, kColumns);
#pragma unroll 1
            for (; share.block < work.blocks && share.origin < share.end; ++share.block) {
                fetch_row(share, work);
                share.begin = share.origin += work.units;
                // Of rows that begin in this share only the last one can be shared.
                share.name = worker;
            }
            share.block = 0;
            share.sequence = Sequence::load(a, ++row);
        }
    }

private:
    // The rest of the block's share: begin of the row and column block, end of the share, begin of the next chunk, and the row's
    // name where several blocks share it.
    struct Share {
        uint32_t origin;
        uint32_t end;
        uint32_t block;
        uint32_t begin;
        uint32_t name;
        Sequence sequence;
    };

    // Loads the chunks of one row and column block that begin in this share.
    __device__ void fetch_row(const Share& share, const RowWork& work) {
        const uint32_t begin = work.first_chunk(), end = work.end_chunk();
        // Where position 0 would lie among all work.
        const uint32_t zero = share.origin - work.first_unit;
        uint32_t opening = share.begin - zero, chunk = chunk_of_unit(opening);
        const uint32_t first_chunk = chunk;
        const bool opens = chunk == begin, closes = zero + first_unit_of(end - 1) < share.end, alone = opens && closes;
        const uint32_t first_column = share.block * kColumns;
        const uint32_t used = min(share.sequence.fresh * a.group - first_column, static_cast<uint32_t>(kColumns));
        const Sight sight =
            Sight::of(a, share.sequence.old(), p.token_of(first_column), p.token_of(first_column + used - 1));
        Unit unit{};
        unit.bits = kOpensRow | (closes ? kHasNewest : 0) | (opens ? kAddsUp : 0) | used << 24;
        unit.slot = alone ? kAlone : share.name;
        unit.old = share.sequence.old();
        unit.first_token = share.sequence.first_token;
        unit.first_column = first_column;
        bool more = true;
#pragma unroll 1
        while (more) {
            const uint32_t next = first_unit_of(chunk + 1), end_unit = sight.end_unit(next);
            unit.chunk = chunk - begin;
            ++chunk;
            more = chunk < end && zero + next < share.end;
            const bool goes_on = more || (chunk == end && share.origin + work.units < share.end);
            if (!more && !alone && lane == 0) {
                const uint32_t done = chunk - first_chunk;
                shape.control->shared_rows[shared_rows] = {unit.first_token, first_column,     used, end - begin,
                                                           done,             opens ? done : 0, share.name};
            }
            unit.bits |= kBeginsChunk;
            uint32_t number = sight.first_of(opening, next);
#pragma unroll 1
            do {
                const bool ends = number + 1 >= end_unit;
                if (ends) unit.bits |= kEndsChunk | (more ? 0 : kEndsRow) | (goes_on ? 0 : kIsLast);
                fetch_unit(share.sequence.pages, sight, number, unit);
                unit.bits &= kHasNewest | kAddsUp | 0xff000000u;
            } while (++number < end_unit);
            opening = next;
        }
        if (!alone) shared_rows = 1;
        is_planned = false;
    }

    // Waits until the next buffer may be filled.
    __device__ __forceinline__ void wait_for_room() {
        if (ahead > 0) {
            --ahead;
            return;
        }
        shape.control->empty[next_free.index].wait(next_free.parity);
        next_free.advance();
    }

    __device__ void fetch_unit(const uint32_t* pages, const Sight& sight, uint32_t number, Unit& unit) {
        const uint32_t first = number * kUnit, size = a.page_size;
        const uint32_t begin = sight.begin_in(first), end = sight.end_in(first);
        const bool is_fresh = p.fresh.slots && unit.old >= first && unit.old < first + kUnit;
        const bool is_edge = first < sight.whole_begin || first + kUnit > sight.whole_end || is_fresh;
        unit.first = first;
        // By runs, since a run never crosses a page. Invisible runs are skipped; slots of the first units' runs come from the plan.
        const uint32_t run = lane * p.run, position = first + run;
        const bool seen = run < end && run + p.run > begin;
        if (known == 0) planned_from = number;
        const uint32_t each = kUnit / p.run, offset = (number - planned_from) * each;
        uint32_t slot = __shfl_sync(kAllLanes, planned_slot, (offset + lane) % 32);
        if (seen && !(is_planned && offset + each <= kPlannedRuns)) slot = pages[position / size] * size + position % size;
        if (!waited && first + end > unit.old) {
            wait_on_dependent_grids();
            waited = true;
        }
        Unit loaded = unit;
        loaded.bits |= (is_edge ? kIsEdge : 0) | begin << 8 | end << 16;
        // Partly visible halves are loaded by swizzle atoms. Not where a block has its SM to itself: it may have a single row, and the
        // code of this path would be fetched late, at its end.
        const uint32_t ends = begin / kAtomRows | (end + kAtomRows - 1) / kAtomRows;
        if (Shape::kBlocks > 1 && is_edge && p.run == kHalf && ends % (kHalf / kAtomRows) != 0) {
            fetch_atoms(loaded, begin, end, slot);
        } else {
            fetch_runs(loaded, run, seen, slot);
        }
        ++known;
    }

    // The barrier of the next buffer, once that may be filled, with its expected bytes. Keys come first, then values, a half at a
    // time, maybe empty; the first half comes with the unit's description.
    __device__ __forceinline__ Barrier* begin_half(uint32_t part, const Unit& loaded, uint32_t positions) {
        Barrier* full = &shape.control->full[at.index];
        wait_for_room();
        if (lane == 0) {
            if (part == 0) shape.control->units[known % kUnitsKnown] = loaded;
            full->arrive_and_expect_tx(positions * Shape::kSlices * 128);
        }
        __syncwarp();
        return full;
    }

    // Whole runs, one per lane.
    __device__ __forceinline__ void fetch_runs(const Unit& loaded, uint32_t run, bool seen, uint32_t slot) {
#pragma unroll 1
        for (uint32_t part = 0; part < 4; ++part) {
            const uint32_t row = run - part % 2 * kHalf;
            const bool mine = seen && row < kHalf;
            const uint32_t runs = __popc(__ballot_sync(kAllLanes, mine));
            Barrier* full = begin_half(part, loaded, runs * p.run);
            if (mine) {
                uint8_t* to = shape.ring + at.index * Shape::kBuffer + row * 128;
#pragma unroll
                for (int slice = 0; slice < Shape::kSlices; ++slice) {
                    evict_first.tma_load(to + slice * Shape::kSliceBytes, &p.cached[0][part / 2], full, slice * 64, head, slot);
                }
            }
            __syncwarp();
            at.advance();
        }
    }

    // Visible swizzle atoms, one lane per slice of an atom; lanes have the slots of the halves.
    __device__ __forceinline__ void fetch_atoms(const Unit& loaded, uint32_t begin, uint32_t end, uint32_t slot) {
#pragma unroll 1
        for (uint32_t part = 0; part < 4; ++part) {
            const uint32_t half = part % 2 * kHalf, first = (max(begin, half) - half) / kAtomRows;
            const uint32_t end_atom = end > half ? (min(end - half, kHalf) + kAtomRows - 1) / kAtomRows : 0;
            const uint32_t atoms = end_atom > first ? end_atom - first : 0;
            const uint32_t from = __shfl_sync(kAllLanes, slot, part % 2);
            Barrier* full = begin_half(part, loaded, atoms * kAtomRows);
            if (lane < atoms * Shape::kSlices) {
                const uint32_t slice = lane % Shape::kSlices, row = (first + lane / Shape::kSlices) * kAtomRows;
                uint8_t* to = shape.ring + at.index * Shape::kBuffer + slice * Shape::kSliceBytes + row * 128;
                evict_first.tma_load(to, &p.cached[1][part / 2], full, slice * 64, head, from + row);
            }
            __syncwarp();
            at.advance();
        }
    }
};
