// The warp that finds the block's share, keeps keys and values coming, and tells the others what they are.
#pragma once
#include "../common/order.cuh"
#include "stream_share.cuh"

template <int kDim, int kColumns, typename Kv>
struct StreamProducer {
    using Shape = StreamShape<kDim, kColumns, Kv>;
    const StreamParams& p;
    const AttendParams& a;
    const Shape& shape;
    const uint32_t head;
    const uint32_t lane = threadIdx.x % 32;
    // What this step stores is read from the cache only when an earlier kernel stored it.
    bool waited;
    uint32_t known = 0;
    uint32_t shared_rows = 0;
    RingPlace<Shape::kBuffers> at;

    __device__ StreamProducer(const StreamParams& params, const Shape& shared, uint32_t kv_head)
        : p(params), a(params.attend), shape(shared), head(kv_head), waited(params.fresh.slots != nullptr) {
        // Everything is free at first.
        at.parity = 1;
    }

    __device__ void run(uint32_t worker) {
        const Share share = find_share(a, worker, kColumns);
        Cursor cursor;
        bool live = share.begin < share.end;
        if (live) {
            cursor = Cursor::seek(a, share, kColumns);
            live = cursor.live(a, share);
        }
        if (!live) {
            if (lane == 0) {
                shape.control->has_work = 0;
                shape.control->full[0].expect(0);
            }
            return;
        }
        if (lane == 0) {
            shape.control->has_work = 1;
            shape.control->shared_rows[0].done = shape.control->shared_rows[1].done = 0;
        }
#pragma unroll 1
        while (cursor.live(a, share)) fetch_row(share, cursor);
    }

private:
    // Goes over the chunks of one row and block of columns that belong to this block, and leaves the cursor behind them.
    __device__ void fetch_row(const Share& share, Cursor& cursor) {
        const uint32_t row = cursor.row, block = cursor.block, begin = cursor.work.first_chunk(), all = cursor.end_chunk - begin;
        const uint32_t last = cursor.origin() + first_unit_of(cursor.end_chunk - 1) - cursor.work.first_unit;
        const bool opens = cursor.chunk == begin, alone = opens && last < share.end;
        // A row that several blocks share is named after the one in whose share it begins.
        SharedRow names{cursor.sequence.first_token, block * kColumns, 0, all, 0, 0, kAlone};
        names.used = min(cursor.sequence.fresh * a.group - names.first_column, static_cast<uint32_t>(kColumns));
        if (!alone) names.slot = Shares(share.total, a.workers).owner(cursor.origin());
        Unit unit{};
        unit.bits = kOpensRow | (last < share.end ? kHasNewest : 0) | (opens ? kAddsUp : 0) | names.used << 24;
        unit.slot = names.slot;
        unit.old = cursor.sequence.old();
        unit.first_token = names.first_token;
        unit.first_column = names.first_column;
        bool more = true;
#pragma unroll 1
        while (more) {
            const Sequence sequence = cursor.sequence;
            const Sight sight = cursor.sight;
            const uint32_t opening = first_unit_of(cursor.chunk), first = max(opening, sight.oldest / kUnit);
            const uint32_t behind = min(first_unit_of(cursor.chunk + 1), (sight.end + kUnit - 1) / kUnit);
            unit.chunk = cursor.chunk - begin;
            ++names.done;
            cursor.advance(a, kColumns);
            const bool goes_on = cursor.live(a, share);
            more = goes_on && cursor.row == row && cursor.block == block;
            if (!more && !alone && lane == 0) {
                names.added = opens ? names.done : 0;
                shape.control->shared_rows[shared_rows] = names;
            }
            unit.bits |= kBeginsChunk;
            // A chunk of which nobody sees anything has one unit all the same.
            uint32_t number = first < behind ? first : opening;
            do {
                const bool ends = number + 1 >= behind;
                if (ends) unit.bits |= kEndsChunk | (more ? 0 : kEndsRow) | (goes_on ? 0 : kIsLast);
                fetch_unit(sequence, sight, number, unit);
                unit.bits &= kHasNewest | kAddsUp | 0xff000000u;
            } while (++number < behind);
        }
        if (!alone) shared_rows = 1;
    }

    __device__ void fetch_unit(const Sequence& sequence, const Sight& sight, uint32_t number, Unit& unit) {
        const uint32_t first = number * kUnit, size = a.page_size;
        const uint32_t begin = min(max(sight.oldest, first) - first, kUnit);
        const uint32_t end = sight.end > first ? min(sight.end - first, kUnit) : 0;
        const bool is_fresh = p.fresh.slots && unit.old >= first && unit.old < first + kUnit;
        const bool is_edge = first < sight.whole_begin || first + kUnit > sight.whole_end || is_fresh;
        unit.first = first;
        // Run by run: a run never crosses a page. Runs that nobody sees are left out.
        const uint32_t run = lane * p.run, position = first + run;
        const bool seen = run < end && run + p.run > begin;
        uint32_t slot = 0;
        if (seen) slot = sequence.pages[position / size] * size + position % size;
        if (!waited && first + end > unit.old) {
            wait_for_predecessor();
            waited = true;
        }
        Unit told = unit;
        told.bits |= (is_edge ? kIsEdge : 0) | begin << 8 | end << 16;
        fetch(&p.keys, seen, 0, run, slot, &told);
        fetch(&p.keys, seen, kHalf, run, slot, nullptr);
        fetch(&p.values, seen, 0, run, slot, nullptr);
        fetch(&p.values, seen, kHalf, run, slot, nullptr);
    }

    // One half of the keys or values of a unit, maybe nothing; the first one comes with what there is to know.
    __device__ void fetch(const TensorMap* map, bool seen, uint32_t half, uint32_t run, uint32_t slot, const Unit* told) {
        const bool mine = seen && run - half < kHalf;
        const uint32_t runs = __popc(__ballot_sync(kAllLanes, mine));
        Barrier* full = &shape.control->full[at.stage];
        shape.control->empty[at.stage].wait(at.parity);
        if (lane == 0) {
            if (told) shape.control->units[known % kUnitsKnown] = *told;
            full->expect(runs * p.run * Shape::kSlices * 128);
        }
        known += told != nullptr;
        __syncwarp();
        if (mine) {
            uint8_t* to = shape.ring + at.stage * Shape::kBuffer + (run - half) * 128;
#pragma unroll
            for (int slice = 0; slice < Shape::kSlices; ++slice) {
                copy_box(to + slice * Shape::kSliceBytes, map, full, slice * 64, head, slot);
            }
        }
        __syncwarp();
        at.advance();
    }
};
