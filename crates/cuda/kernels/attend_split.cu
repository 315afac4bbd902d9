// Attention of sequences with few new tokens: decoding, and whatever shapes `attend_tiles` does not take.
#include "attend/split.cuh"

// The worker in whose share a row begins: names the row where several blocks work on it.
__device__ uint32_t owner(const AttendParams& p, const Share& share, uint32_t unit) {
    const auto begin = [&](uint64_t worker) { return share.total * worker / p.workers; };
    uint32_t worker = static_cast<uint32_t>(static_cast<uint64_t>(unit) * p.workers / share.total);
    while (begin(worker) > unit) --worker;
    while (begin(worker + 1) <= unit) ++worker;
    return worker;
}

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
    if (column >= row.sequence.fresh * p.group || element >= p.head_dim) return;
    const uint32_t query_head = head * p.group + column % p.group;
    if (p.sinks) result.add({p.sinks[query_head] * kLog2E, 1.0f, 0.0f});
    const size_t token = row.sequence.first_token + column / p.group;
    p.out[token * p.out_stride + query_head * p.head_dim + element] = __float2bfloat16(result.sum / result.total);
}

// Goes over the chunks of one row and block of columns that belong to this worker, and leaves the cursor behind them.
template <int kDim, int kColumns, typename Kv>
__device__ void attend_row(const AttendParams& p, const Share& share, Split<kDim, kColumns, Kv>& split, Cursor& cursor) {
    constexpr int kGroups = kColumns / kGroupColumns, kElements = Meeting<kDim>::kElements;
    const Cursor row = cursor;
    const uint32_t first = row.work.first_chunk(), chunks = row.work.end_chunk() - first;
    const uint32_t last = row.origin() + first_unit_of(first + chunks - 1) - row.work.first_unit;
    const bool alone = row.chunk == first && last < share.end;
    const uint32_t slot = alone ? 0 : owner(p, share, row.origin());
    const Partials<kDim, kColumns> partials(p, slot, split.head);
    Softmax results[kGroups][kElements];
#pragma unroll
    for (int group = 0; group < kGroups; ++group) {
#pragma unroll
        for (int i = 0; i < kElements; ++i) results[group][i] = kNothing;
    }
    split.load_query(p, row);
    uint32_t done = 0;
    for (; cursor.row == row.row && cursor.block == row.block && cursor.live(p, share); cursor.advance(p, kColumns), ++done) {
        split.clear();
        split.use_chunk(p, share, cursor);
#pragma unroll
        for (int group = 0; group < kGroups; ++group) {
            split.bring(group);
            __syncthreads();
#pragma unroll
            for (int i = 0; i < kElements; ++i) {
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
    if (!alone) {
        if (!is_last(p.arrivals + slot * p.kv_heads + split.head, done, chunks, split.meeting)) return;
        for (uint32_t chunk = 0; chunk < chunks; ++chunk) {
#pragma unroll
            for (int group = 0; group < kGroups; ++group) {
#pragma unroll
                for (int i = 0; i < kElements; ++i) {
                    const uint32_t column = group * kGroupColumns + Meeting<kDim>::column(i);
                    results[group][i].add(partials.load(chunk, column, Meeting<kDim>::element(i)));
                }
            }
        }
    }
#pragma unroll
    for (int group = 0; group < kGroups; ++group) {
#pragma unroll
        for (int i = 0; i < kElements; ++i) write<kDim, kColumns>(p, row, split.head, group, i, results[group][i]);
    }
}

template <int kDim, int kColumns, typename Kv>
__device__ void attend_split(const AttendParams& p) {
    using Work = Split<kDim, kColumns, Kv>;
    extern __shared__ __align__(128) uint8_t shared[];
    let_successor_begin();
    Work split;
    split.ring = shared + threadIdx.x / 32 * Work::kStages * Work::kStage;
    split.meeting = reinterpret_cast<Meeting<kDim>*>(shared + kWarps * Work::kStages * Work::kStage);
    split.head = blockIdx.x % p.kv_heads;
    split.loading = split.using_ = 0;
    if (p.head_dim < kDim) {
        // What no copy writes counts as zero.
        uint4* words = reinterpret_cast<uint4*>(shared);
        for (int i = threadIdx.x; i < kWarps * Work::kStages * Work::kStage / 16; i += kThreads) words[i] = {};
    }
    const Share share = find_share<kThreads>(p, blockIdx.x / p.kv_heads, kColumns, split.meeting->words);
    if (share.begin >= share.end) {
        wait_for_predecessor();
        return;
    }
    Cursor cursor;
    cursor.seek(p, share, kColumns);
    split.stream.begin(p, share, cursor);
    bool waited = false;
    for (int stage = 0; stage < Work::kStages - 1; ++stage) {
        if (!waited && split.stream.live && !split.stream.is_old()) {
            wait_for_predecessor();
            waited = true;
        }
        split.load_next(p, share);
    }
    if (!waited) wait_for_predecessor();
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
