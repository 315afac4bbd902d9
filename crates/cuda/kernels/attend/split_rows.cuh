// The kernel `attend_split`: rows and column blocks of a worker's share, their results, and the merge across blocks.
#pragma once
#include "split.cuh"

// Where the results of one row and column block go.
struct Place {
    uint32_t first_token;
    uint32_t first_column;
    // Columns from the first one on that belong to queries.
    uint32_t used;
    // All chunks, and how many this block has done; `slot` names the row where other blocks do the rest.
    uint32_t chunks;
    uint32_t done;
    uint32_t slot;
};

template <int kDim, int kColumns>
__device__ void write(const AttendParams& p, const Place& place, uint32_t head, uint32_t column, uint32_t element, Softmax result) {
    const uint32_t query = place.first_column + column, query_head = head * p.group + query % p.group;
    if (p.sinks) result.add({p.sinks[query_head] * kLog2E, 1.0f, make_float4(0.0f, 0.0f, 0.0f, 0.0f)});
    const size_t token = place.first_token + query / p.group;
    bf16* out = p.out + token * p.out_stride + query_head * p.head_dim + element;
    const float factor = 1.0f / result.total;
    const float sums[4] = {result.sum.x, result.sum.y, result.sum.z, result.sum.w};
#pragma unroll
    for (int j = 0; j < 4; ++j) {
        if (element + j < p.head_dim) out[j] = __float2bfloat16(sums[j] * factor);
    }
}

// Merges the results of chunks that other blocks stored, several loads at a time.
template <int kDim, int kColumns>
__device__ Softmax add_up(const Partials<kDim, kColumns>& partials, uint32_t chunks, uint32_t column, uint32_t element) {
    constexpr uint32_t kAtOnce = 12;
    Softmax result = nothing();
    for (uint32_t first = 0; first < chunks; first += kAtOnce) {
        Softmax parts[kAtOnce];
#pragma unroll
        for (uint32_t i = 0; i < kAtOnce; ++i) parts[i] = partials.load(min(first + i, chunks - 1), column, element);
#pragma unroll
        for (uint32_t i = 0; i < kAtOnce; ++i) {
            if (first + i < chunks) result.add(parts[i]);
        }
    }
    return result;
}

// Attends to this worker's chunks of one row and column block and moves the cursor past them. Returns what is left to do when
// other blocks have the rest of the chunks; `done` is zero when nothing is.
template <int kDim, int kColumns, typename Kv, int kRoom>
__device__ Place attend_row(const AttendParams& p, const Share& share, Split<kDim, kColumns, Kv, kRoom>& split, Cursor& cursor) {
    constexpr int kGroups = kColumns / kGroupColumns, kFours = Meeting<kDim>::kFours;
    const uint32_t row = cursor.row, block = cursor.block, first = cursor.work.first_chunk();
    Place place{cursor.sequence.first_token, block * kColumns, 0, cursor.end_chunk - first, 0, 0};
    place.used = min(cursor.sequence.fresh * p.group - place.first_column, static_cast<uint32_t>(kColumns));
    const uint32_t last = cursor.origin() + first_unit_of(cursor.end_chunk - 1) - cursor.work.first_unit;
    const bool alone = cursor.chunk == first && last < share.end;
    // A row shared by several blocks is named after the block in whose share it begins.
    if (!alone) place.slot = Shares(share.total, p.workers).owner(cursor.origin());
    const Partials<kDim, kColumns> partials(p, place.slot, split.head);
    Softmax results[kGroups][kFours];
#pragma unroll
    for (int group = 0; group < kGroups; ++group) {
#pragma unroll
        for (int i = 0; i < kFours; ++i) results[group][i] = nothing();
    }
    split.has_query = false;
#pragma unroll 1
    for (; cursor.row == row && cursor.block == block && cursor.live(p, share); cursor.advance(p, kColumns), ++place.done) {
        split.clear();
        split.use_chunk(p, share, cursor);
#pragma unroll
        for (int group = 0; group < kGroups; ++group) {
            split.bring(group, place.used - min(place.used, static_cast<uint32_t>(group * kGroupColumns)));
            __syncthreads();
#pragma unroll
            for (int i = 0; i < kFours; ++i) {
                const uint32_t column = group * kGroupColumns + Meeting<kDim>::column(i);
                if (column >= place.used) continue;
                const Softmax chunk = split.meeting->chunk(i);
                if (alone) {
                    results[group][i].add(chunk);
                } else {
                    partials.store(cursor.chunk - first, column, Meeting<kDim>::element(i), chunk);
                }
            }
            __syncthreads();
        }
    }
    if (!alone) return place;
#pragma unroll
    for (int group = 0; group < kGroups; ++group) {
#pragma unroll
        for (int i = 0; i < kFours; ++i) {
            const uint32_t column = group * kGroupColumns + Meeting<kDim>::column(i);
            if (column < place.used) {
                write<kDim, kColumns>(p, place, split.head, column, Meeting<kDim>::element(i), results[group][i]);
            }
        }
    }
    place.done = 0;
    return place;
}

// Counts a shared row's finished chunks; the block that completes the count merges them.
template <int kDim, int kColumns>
__device__ void finish(const AttendParams& p, const Place& place, uint32_t head, uint32_t* last) {
    if (place.done == 0) return;
    if (threadIdx.x == 0) {
        uint32_t* arrivals = p.arrivals + place.slot * p.kv_heads + head;
        *last = atomicAdd(arrivals, place.done) + place.done == place.chunks;
        if (*last) *arrivals = 0;
    }
    __syncthreads();
    if (*last) {
        __threadfence();
        const Partials<kDim, kColumns> partials(p, place.slot, head);
#pragma unroll 1
        for (uint32_t four = threadIdx.x; four < place.used * kDim / 4; four += kThreads) {
            const uint32_t column = four / (kDim / 4), element = four % (kDim / 4) * 4;
            write<kDim, kColumns>(p, place, head, column, element, add_up(partials, place.chunks, column, element));
        }
    }
    __syncthreads();
}

template <int kDim, int kColumns, typename Kv, int kRoom>
__device__ void attend_split(const AttendParams& p) {
    using Work = Split<kDim, kColumns, Kv, kRoom>;
    extern __shared__ __align__(128) uint8_t shared[];
    launch_dependent_grids();
    if (p.head_dim < kDim) {
        // What no copy writes is zero.
        uint4* words = reinterpret_cast<uint4*>(shared);
        for (int i = threadIdx.x; i < kWarps * Work::kStages * Work::kStage / 16; i += kThreads) words[i] = {};
    }
    auto* meeting = reinterpret_cast<Meeting<kDim>*>(shared + kWarps * Work::kStages * Work::kStage);
    if (p.homes) wait_on_dependent_grids();
    const Share share = find_share<kThreads>(p, blockIdx.x / p.kv_heads, kColumns, meeting->words);
    if (share.begin >= share.end) {
        wait_on_dependent_grids();
        return;
    }
    Cursor cursor = Cursor::seek(p, share, kColumns);
    if (!cursor.live(p, share)) {
        wait_on_dependent_grids();
        return;
    }
    Work split(p, share, cursor, shared);
    // Only the first and the last row of a share can be shared with others.
    Place first{}, last{};
#pragma unroll 1
    for (bool begins = true; cursor.live(p, share); begins = false) {
        (begins ? first : last) = attend_row(p, share, split, cursor);
    }
    // A warp may have had no tile to wait for.
    split.wait_once();
    // All partial results are written before the counter is raised.
    __threadfence();
    __syncthreads();
    finish<kDim, kColumns>(p, first, split.head, split.meeting->words);
    finish<kDim, kColumns>(p, last, split.head, split.meeting->words);
}

#define ATTEND_SPLIT(room, blocks, dim, columns, name, type)                         \
    extern "C" __global__ void __launch_bounds__(kThreads, blocks)                   \
        attend_split_##dim##_##columns##_##name(const __grid_constant__ AttendParams p) { \
        attend_split<dim, columns, type, room>(p);                                   \
    }

#define ATTEND_SPLIT_OF(room, blocks, dim, suffix)                        \
    ATTEND_SPLIT(room, blocks, dim, 8, bf16##suffix, bf16)                \
    ATTEND_SPLIT(room, blocks, dim, 16, bf16##suffix, bf16)               \
    ATTEND_SPLIT(room, blocks, dim, 8, fp8##suffix, __nv_fp8_e4m3)        \
    ATTEND_SPLIT(room, blocks, dim, 16, fp8##suffix, __nv_fp8_e4m3)
