// The warp that keeps the keys and values of the block's share coming, and tells the others what they are.
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
    const ReadOnce once;
    // What this step stores is read from the cache only when an earlier kernel stored it.
    bool waited;
    uint32_t known = 0;
    // The plan has slots of runs of this row, from the first unit's on, a lane each.
    bool is_planned = true;
    uint32_t planned_from;
    uint32_t planned_slot;
    uint32_t shared_rows = 0;
    RingPlace<Shape::kBuffers> at;
    // Buffers that may be filled before one is given back, and which one that is.
    uint32_t ahead = Shape::kBuffers;
    RingPlace<Shape::kBuffers> next_free;

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
    // What is left of the block's share: where the row and block of columns begin, where the share ends, and where the next
    // chunk begins; the row's name where several blocks share it.
    struct Share {
        uint32_t origin;
        uint32_t end;
        uint32_t block;
        uint32_t begin;
        uint32_t name;
        Sequence sequence;
    };

    // Goes over the chunks of one row and block of columns that begin in this share.
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
            const uint32_t next = first_unit_of(chunk + 1), behind = sight.behind(next);
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
                const bool ends = number + 1 >= behind;
                if (ends) unit.bits |= kEndsChunk | (more ? 0 : kEndsRow) | (goes_on ? 0 : kIsLast);
                fetch_unit(share.sequence.pages, sight, number, unit);
                unit.bits &= kHasNewest | kAddsUp | 0xff000000u;
            } while (++number < behind);
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
        shape.control->empty[next_free.stage].wait(next_free.parity);
        next_free.advance();
    }

    __device__ void fetch_unit(const uint32_t* pages, const Sight& sight, uint32_t number, Unit& unit) {
        const uint32_t first = number * kUnit, size = a.page_size;
        const uint32_t begin = sight.begin_in(first), end = sight.end_in(first);
        const bool is_fresh = p.fresh.slots && unit.old >= first && unit.old < first + kUnit;
        const bool is_edge = first < sight.whole_begin || first + kUnit > sight.whole_end || is_fresh;
        unit.first = first;
        // Run by run: a run never crosses a page. Runs that nobody sees are left out, and those of the first units are planned.
        const uint32_t run = lane * p.run, position = first + run;
        const bool seen = run < end && run + p.run > begin;
        if (known == 0) planned_from = number;
        const uint32_t each = kUnit / p.run, behind = (number - planned_from) * each;
        uint32_t slot = __shfl_sync(kAllLanes, planned_slot, (behind + lane) % 32);
        if (seen && !(is_planned && behind + each <= kPlannedRuns)) slot = pages[position / size] * size + position % size;
        if (!waited && first + end > unit.old) {
            wait_for_predecessor();
            waited = true;
        }
        Unit told = unit;
        told.bits |= (is_edge ? kIsEdge : 0) | begin << 8 | end << 16;
        // Of halves that are not seen whole only pieces come, but where a block has its multiprocessor for itself: it may have
        // one row, and at the end of that code for pieces would come late.
        const uint32_t ends = begin / kPiece | (end + kPiece - 1) / kPiece;
        if (Shape::kBlocks > 1 && is_edge && p.run == kHalf && ends % (kHalf / kPiece) != 0) {
            fetch_pieces(told, begin, end, slot);
        } else {
            fetch_runs(told, run, seen, slot);
        }
        ++known;
    }

    // The barrier of the next buffer, told what comes there once that may be filled. Keys come first, then values, a half at a
    // time, maybe nothing; the first half with what there is to know.
    __device__ __forceinline__ Barrier* begin_half(uint32_t part, const Unit& told, uint32_t positions) {
        Barrier* full = &shape.control->full[at.stage];
        wait_for_room();
        if (lane == 0) {
            if (part == 0) shape.control->units[known % kUnitsKnown] = told;
            full->expect(positions * Shape::kSlices * 128);
        }
        __syncwarp();
        return full;
    }

    // Whole runs, a lane each.
    __device__ __forceinline__ void fetch_runs(const Unit& told, uint32_t run, bool seen, uint32_t slot) {
#pragma unroll 1
        for (uint32_t part = 0; part < 4; ++part) {
            const uint32_t row = run - part % 2 * kHalf;
            const bool mine = seen && row < kHalf;
            const uint32_t runs = __popc(__ballot_sync(kAllLanes, mine));
            Barrier* full = begin_half(part, told, runs * p.run);
            if (mine) {
                uint8_t* to = shape.ring + at.stage * Shape::kBuffer + row * 128;
#pragma unroll
                for (int slice = 0; slice < Shape::kSlices; ++slice) {
                    once.copy_box(to + slice * Shape::kSliceBytes, &p.cached[0][part / 2], full, slice * 64, head, slot);
                }
            }
            __syncwarp();
            at.advance();
        }
    }

    // The pieces that anyone sees, a lane for each slice of one; lanes have the slots of the halves.
    __device__ __forceinline__ void fetch_pieces(const Unit& told, uint32_t begin, uint32_t end, uint32_t slot) {
#pragma unroll 1
        for (uint32_t part = 0; part < 4; ++part) {
            const uint32_t half = part % 2 * kHalf, first = (max(begin, half) - half) / kPiece;
            const uint32_t behind = end > half ? (min(end - half, kHalf) + kPiece - 1) / kPiece : 0;
            const uint32_t pieces = behind > first ? behind - first : 0;
            const uint32_t from = __shfl_sync(kAllLanes, slot, part % 2);
            Barrier* full = begin_half(part, told, pieces * kPiece);
            if (lane < pieces * Shape::kSlices) {
                const uint32_t slice = lane % Shape::kSlices, row = (first + lane / Shape::kSlices) * kPiece;
                uint8_t* to = shape.ring + at.stage * Shape::kBuffer + slice * Shape::kSliceBytes + row * 128;
                once.copy_box(to, &p.cached[1][part / 2], full, slice * 64, head, from + row);
            }
            __syncwarp();
            at.advance();
        }
    }
};
