// The producer warp: TMA loads of all stages in order, as far ahead as the ring has room.
#pragma once
#include "kv_split.cuh"

// Most tiles in flight; the ring has at least as many.
constexpr uint32_t kInFlight = 4;

template <class Weight>
struct ProducerWarp {
    const Stage* stages;
    const Ring& ring;
    // See `GroupShare::inverse`.
    const uint32_t inverse;
    const uint32_t lane = threadIdx.x % 32;
    const EvictFirst evict_first;
    PipelineState place{0, 1};
    // Tiles in flight, and the oldest of them.
    uint32_t in_flight = 0;
    PipelineState oldest{0, 0};
    // Batch of the previous attention stage, its last KV split, and the slots of that split's first copies (one per lane).
    const uint32_t* known = nullptr;
    uint32_t known_heads = 0;
    KvSplit part;
    uint32_t parts = 0;
    uint32_t first_slots = 0;

    // What the producer needs of a stage; loaded while the previous stage is fetched.
    struct Job {
        StageKind kind;
        uint32_t groups;
        uint32_t tiles;
        const uint32_t* page_table;

        __device__ __forceinline__ static Job load(const Stage* stage) {
            prefetch_tensormap(&stage->maps[0]);
            prefetch_tensormap(&stage->maps[1]);
            return {stage->kind, stage->groups, stage->tiles, stage->attend.page_table};
        }
    };

    __device__ ProducerWarp(const Stage* all, const Ring& to, uint32_t blocks) : stages(all), ring(to), inverse(blocks) {}

    __device__ void run(uint32_t count) {
        Job next = Job::load(stages);
#pragma unroll 1
        for (uint32_t i = 0; i < count; ++i) {
            const Job job = next;
            if (i + 1 < count) next = Job::load(stages + i + 1);
            if (job.kind == StageKind::kAttend) {
                fetch_cached(stages[i], job);
            } else if (lane == 0) {
                fetch_weight(stages[i], job);
            }
            __syncwarp();
        }
    }

private:
    // Waits until another tile may be requested. A few keep memory busy; messages would queue behind more.
    __device__ __forceinline__ void wait_for_room() {
        if (in_flight < kInFlight) {
            ++in_flight;
        } else {
            ring.full[oldest.index].wait(oldest.parity);
            oldest.advance(ring.count);
        }
        ring.empty[place.index].wait(place.parity);
    }

    __device__ void fetch_weight(const Stage& stage, const Job& job) {
        const GroupShare share(job.groups, inverse);
#pragma unroll 1
        for (uint32_t group = share.begin; group < share.end; ++group) {
#pragma unroll 1
            for (uint32_t tile = 0; tile < job.tiles; ++tile, place.advance(ring.count)) {
                wait_for_room();
                const bool gated = job.kind == StageKind::kGated;
                Weight::fetch(evict_first, ring.at(place), stage, &ring.full[place.index], gated, group, tile);
            }
        }
    }

    // Keys and values of this block's KV splits.
    __device__ void fetch_cached(const Stage& stage, const Job& job) {
        const AttendStage& a = stage.attend;
        bool is_known = job.page_table == known && job.groups == known_heads;
        known = job.page_table;
        known_heads = job.groups;
        uint32_t number = blockIdx.x;
#pragma unroll 1
        do {
            if (!is_known || part.number != number) {
                part = find_split(a, number, parts);
                if (number < parts) first_slots = slots(a, 0);
                is_known = true;
            }
            if (number < parts) fetch_part(stage);
            number += gridDim.x;
        } while (number < parts);
    }

    // First slot of this lane's copy, for 32 copies from `copy` on.
    __device__ __forceinline__ uint32_t slots(const AttendStage& a, uint32_t copy) const {
        const uint32_t position = min(part.begin + ((copy + lane) << a.run_shift), part.end - 1) >> a.run_shift << a.run_shift;
        return part.pages[position / a.page_size] * a.page_size + position % a.page_size;
    }

    __device__ void fetch_part(const Stage& stage) {
        uint32_t mine = first_slots;
        const AttendStage& a = stage.attend;
        const uint32_t run = 1 << a.run_shift, bytes = run * kHeadDim * a.element;
        const uint32_t copies = (part.end - part.begin + run - 1) / run, each = kTilePositions / run;
#pragma unroll 1
        for (uint32_t copy = 0; copy < copies; copy += each, place.advance(ring.count)) {
            if (copy > 0 && copy % 32 == 0) mine = slots(a, copy);
            const uint32_t count = min(each, copies - copy);
            Barrier* full = &ring.full[place.index];
            if (lane == 0) {
                wait_for_room();
                full->arrive_and_expect_tx(2 * count * bytes);
            }
#pragma unroll 1
            for (uint32_t i = 0; i < count; ++i) {
                const uint32_t slot = __shfl_sync(kAllLanes, mine, (copy + i) % 32);
                if (lane != 0) continue;
                uint8_t* to = ring.at(place) + i * bytes;
                tma_load(to, &stage.maps[0], full, 0, part.head, slot, 0);
                tma_load(to + kTileBytes / 2, &stage.maps[1], full, 0, part.head, slot, 0);
            }
        }
    }
};
