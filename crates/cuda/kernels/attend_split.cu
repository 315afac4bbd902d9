// Attention of sequences with few new tokens: decoding, and whatever shapes `attend_tiles` does not take.
#include "attend/split.cuh"

// Counts the chunks of a row that are done; true in the block that finds all of them done.
template <int kDim>
__device__ bool is_last(uint32_t* arrivals, uint32_t done, uint32_t all, Meeting<kDim>* meeting) {
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) {
        const bool last = atomicAdd(arrivals, done) + done == all;
        if (last) *arrivals = 0;
        meeting->words[0] = last;
    }
    __syncthreads();
    const bool last = meeting->words[0];
    if (last) __threadfence();
    return last;
}

template <int kDim, int kColumns>
__device__ void write(const AttendParams& p, const Cursor& row, uint32_t head, int group, int i, Softmax result) {
    const uint32_t column = row.block * kColumns + group * kGroupColumns + Meeting<kDim>::column(i);
    const uint32_t element = Meeting<kDim>::element(i);
    if (column >= row.sequence.fresh * p.group) return;
    const uint32_t query_head = head * p.group + column % p.group;
    if (p.sinks) result.add({p.sinks[query_head] * kLog2E, 1.0f, make_float4(0.0f, 0.0f, 0.0f, 0.0f)});
    const size_t token = row.sequence.first_token + column / p.group;
    bf16* out = p.out + token * p.out_stride + query_head * p.head_dim + element;
    const float factor = 1.0f / result.total;
    const float sums[4] = {result.sum.x, result.sum.y, result.sum.z, result.sum.w};
#pragma unroll
    for (int j = 0; j < 4; ++j) {
        if (element + j < p.head_dim) out[j] = __float2bfloat16(sums[j] * factor);
    }
}

// Adds up the results of chunks that other blocks left behind, some loads at a time.
template <int kDim, int kColumns>
__device__ Softmax add_up(const Partials<kDim, kColumns>& partials, uint32_t chunks, uint32_t column, uint32_t element) {
    constexpr uint32_t kAtOnce = 8;
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

// Goes over the chunks of one row and block of columns that belong to this worker, and leaves the cursor behind them.
template <int kDim, int kColumns, typename Kv>
__device__ void attend_row(const AttendParams& p, const Share& share, Split<kDim, kColumns, Kv>& split, Cursor& cursor) {
    constexpr int kGroups = kColumns / kGroupColumns, kFours = Meeting<kDim>::kFours;
    const Cursor row = cursor;
    const uint32_t first = row.work.first_chunk(), chunks = row.work.end_chunk() - first;
    const uint32_t last = row.origin() + first_unit_of(first + chunks - 1) - row.work.first_unit;
    const bool alone = row.chunk == first && last < share.end;
    // A row that several blocks share is named after the one in whose share it begins.
    const uint32_t slot = alone ? 0 : Shares(share.total, p.workers).owner(row.origin());
    const Partials<kDim, kColumns> partials(p, slot, split.head);
    Softmax results[kGroups][kFours];
#pragma unroll
    for (int group = 0; group < kGroups; ++group) {
#pragma unroll
        for (int i = 0; i < kFours; ++i) results[group][i] = nothing();
    }
    split.has_query = false;
    uint32_t done = 0;
#pragma unroll 1
    for (; cursor.row == row.row && cursor.block == row.block && cursor.live(p, share); cursor.advance(p, kColumns), ++done) {
        split.clear();
        split.use_chunk(p, share, cursor);
#pragma unroll
        for (int group = 0; group < kGroups; ++group) {
            split.bring(group);
            __syncthreads();
#pragma unroll
            for (int i = 0; i < kFours; ++i) {
                const Softmax chunk = split.meeting->chunk(i);
                if (alone) {
                    results[group][i].add(chunk);
                } else {
                    const uint32_t column = group * kGroupColumns + Meeting<kDim>::column(i);
                    partials.store(cursor.chunk - first, column, Meeting<kDim>::element(i), chunk);
                }
            }
            __syncthreads();
        }
    }
    if (!alone && !is_last(p.arrivals + slot * p.kv_heads + split.head, done, chunks, split.meeting)) return;
#pragma unroll
    for (int group = 0; group < kGroups; ++group) {
#pragma unroll
        for (int i = 0; i < kFours; ++i) {
            const uint32_t column = group * kGroupColumns + Meeting<kDim>::column(i);
            if (!alone) results[group][i] = add_up(partials, chunks, column, Meeting<kDim>::element(i));
            write<kDim, kColumns>(p, row, split.head, group, i, results[group][i]);
        }
    }
}

template <int kDim, int kColumns, typename Kv>
__device__ void attend_split(const AttendParams& p) {
    using Work = Split<kDim, kColumns, Kv>;
    extern __shared__ __align__(128) uint8_t shared[];
    let_successor_begin();
    if (p.head_dim < kDim) {
        // What no copy writes counts as zero.
        uint4* words = reinterpret_cast<uint4*>(shared);
        for (int i = threadIdx.x; i < kWarps * Work::kStages * Work::kStage / 16; i += kThreads) words[i] = {};
    }
    auto* meeting = reinterpret_cast<Meeting<kDim>*>(shared + kWarps * Work::kStages * Work::kStage);
    const Share share = find_share<kThreads>(p, blockIdx.x / p.kv_heads, kColumns, meeting->words);
    if (share.begin >= share.end) {
        wait_for_predecessor();
        return;
    }
    Cursor cursor = Cursor::seek(p, share, kColumns);
    if (!cursor.live(p, share)) {
        wait_for_predecessor();
        return;
    }
    Work split(p, share, cursor, shared);
#pragma unroll 1
    while (cursor.live(p, share)) attend_row(p, share, split, cursor);
}

#define ATTEND_SPLIT(dim, columns, name, type)                                                                      \
    extern "C" __global__ void __launch_bounds__(kThreads, (Split<dim, columns, type>::kBlocks))                    \
        attend_split_##dim##_##columns##_##name(const __grid_constant__ AttendParams p) {                           \
        attend_split<dim, columns, type>(p);                                                                        \
    }

#define ATTEND_SPLIT_OF(dim)                 \
    ATTEND_SPLIT(dim, 8, bf16, bf16)         \
    ATTEND_SPLIT(dim, 16, bf16, bf16)        \
    ATTEND_SPLIT(dim, 8, fp8, __nv_fp8_e4m3) \
    ATTEND_SPLIT(dim, 16, fp8, __nv_fp8_e4m3)

ATTEND_SPLIT_OF(64)
ATTEND_SPLIT_OF(128)
ATTEND_SPLIT_OF(256)
