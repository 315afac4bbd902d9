// The warp that fetches: what all links read of memory, one after the other, as far ahead as the ring has room.
#pragma once
#include "part.cuh"

// Stages that are on their way at a time, of which the ring has no fewer.
constexpr uint32_t kUnderWay = 4;

template <class Weight>
struct ChainFetch {
    const ChainLink* links;
    const ChainRing& ring;
    // Of the number of blocks.
    const uint32_t inverse;
    const uint32_t lane = threadIdx.x % 32;
    const ReadOnce once;
    ChainRing::Place place{0, 1};
    // Stages under way, and the first of them.
    uint32_t asked = 0;
    ChainRing::Place oldest{0, 0};
    // The batch of the attention before, the part of it that came last, and slots of that one's first copies, one a lane.
    const uint32_t* known = nullptr;
    uint32_t known_heads = 0;
    ChainPart part;
    uint32_t parts = 0;
    uint32_t first_slots = 0;

    // What is needed of a link, learnt while the link before it is fetched.
    struct Job {
        LinkKind kind;
        uint32_t groups;
        uint32_t stages;
        const uint32_t* page_table;

        __device__ __forceinline__ static Job learn(const ChainLink* link) {
            expect_map(&link->maps[0]);
            expect_map(&link->maps[1]);
            return {link->kind, link->groups, link->stages, link->attend.page_table};
        }
    };

    __device__ ChainFetch(const ChainLink* all, const ChainRing& to, uint32_t blocks) : links(all), ring(to), inverse(blocks) {}

    __device__ void run(uint32_t count) {
        Job next = Job::learn(links);
#pragma unroll 1
        for (uint32_t i = 0; i < count; ++i) {
            const Job job = next;
            if (i + 1 < count) next = Job::learn(links + i + 1);
            if (job.kind == LinkKind::kAttend) {
                fetch_cached(links[i], job);
            } else if (lane == 0) {
                fetch_weight(links[i], job);
            }
            __syncwarp();
        }
    }

private:
    // Waits until another stage may be asked for. A few keep memory busy; mail would wait behind all that are more.
    __device__ __forceinline__ void wait_for_room() {
        if (asked < kUnderWay) {
            ++asked;
        } else {
            ring.full[oldest.stage].wait(oldest.parity);
            oldest.advance(ring.count);
        }
        ring.empty[place.stage].wait(place.parity);
    }

    __device__ void fetch_weight(const ChainLink& link, const Job& job) {
        const GroupShare share(job.groups, inverse);
#pragma unroll 1
        for (uint32_t group = share.begin; group < share.end; ++group) {
#pragma unroll 1
            for (uint32_t stage = 0; stage < job.stages; ++stage, place.advance(ring.count)) {
                wait_for_room();
                const bool gated = job.kind == LinkKind::kGated;
                Weight::fetch(once, ring.at(place), link, &ring.full[place.stage], gated, group, stage);
            }
        }
    }

    // Keys and values of all parts of this block.
    __device__ void fetch_cached(const ChainLink& link, const Job& job) {
        const ChainAttend& a = link.attend;
        bool is_known = job.page_table == known && job.groups == known_heads;
        known = job.page_table;
        known_heads = job.groups;
        uint32_t number = blockIdx.x;
#pragma unroll 1
        do {
            if (!is_known || part.number != number) {
                part = find_part(a, number, parts);
                if (number < parts) first_slots = slots(a, 0);
                is_known = true;
            }
            if (number < parts) fetch_part(link);
            number += gridDim.x;
        } while (number < parts);
    }

    // Where the positions of this lane's copy begin, of 32 copies from `copy` on.
    __device__ __forceinline__ uint32_t slots(const ChainAttend& a, uint32_t copy) const {
        const uint32_t position = min(part.begin + ((copy + lane) << a.run_shift), part.end - 1) >> a.run_shift << a.run_shift;
        return part.pages[position / a.page_size] * a.page_size + position % a.page_size;
    }

    __device__ void fetch_part(const ChainLink& link) {
        uint32_t mine = first_slots;
        const ChainAttend& a = link.attend;
        const uint32_t run = 1 << a.run_shift, bytes = run * kHeadDim * a.element;
        const uint32_t copies = (part.end - part.begin + run - 1) / run, each = kTile / run;
#pragma unroll 1
        for (uint32_t copy = 0; copy < copies; copy += each, place.advance(ring.count)) {
            if (copy > 0 && copy % 32 == 0) mine = slots(a, copy);
            const uint32_t count = min(each, copies - copy);
            Barrier* full = &ring.full[place.stage];
            if (lane == 0) {
                wait_for_room();
                full->expect(2 * count * bytes);
            }
#pragma unroll 1
            for (uint32_t i = 0; i < count; ++i) {
                const uint32_t slot = __shfl_sync(kAllLanes, mine, (copy + i) % 32);
                if (lane != 0) continue;
                uint8_t* to = ring.at(place) + i * bytes;
                copy_box(to, &link.maps[0], full, 0, part.head, slot, 0);
                copy_box(to + kStageBytes / 2, &link.maps[1], full, 0, part.head, slot, 0);
            }
        }
    }
};
