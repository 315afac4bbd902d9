// Prefill attention by warp-level MMA: many new tokens of one sequence against its keys and values.
//
// A tile is up to 128 rows of queries that share a KV head: tokens of one sequence, times the heads of a group. Each of eight
// warps has sixteen rows in registers; blocks of 64 keys and values are double-buffered.
#pragma once
#include "../common/approximate.cuh"
#include "../common/copy.cuh"
#include "../common/mma.cuh"
#include "../common/order.cuh"
#include "params.cuh"
#include "widened.cuh"

struct AmpereTilesParams {
    AttendParams attend;
    // Tokens in a tile.
    uint32_t tokens;
    // e4m3 caches are widened first; `table_rows` then has page offsets (`widened.cuh`) instead of page table rows.
    uint32_t widened;
};

constexpr uint32_t kAllOfWarp = 0xffffffffu;
constexpr uint32_t kTileWarps = 8;
constexpr uint32_t kTileThreads = 32 * kTileWarps;
constexpr uint32_t kKeysAtOnce = 64;

// A tile: its first token in the batch, its token count, and the position of its first token.
struct AmpereTile {
    uint32_t first_token;
    uint32_t tokens;
    uint32_t position;
    uint32_t head;
    // Range of positions that any row of it sees.
    uint32_t oldest;
    uint32_t end;
    // The sequence's page numbers, or its page offset where it is widened.
    const uint32_t* pages;
    uint32_t home;

    // The tile of a block, found by each warp for itself; no tokens where there is none. A row's last tile comes first, as it
    // sees most.
    __device__ static AmpereTile of(const AmpereTilesParams& p, uint32_t number) {
        const AttendParams& a = p.attend;
        const uint32_t lane = threadIdx.x % 32, wanted = number / a.kv_heads;
        uint32_t before = 0;
        for (uint32_t first = 0; first < a.rows; first += 32) {
            const uint32_t row = first + lane, mine = tiles_of(p, row);
            uint32_t up_to = mine;
#pragma unroll
            for (int offset = 1; offset < 32; offset *= 2) {
                const uint32_t other = __shfl_up_sync(kAllOfWarp, up_to, offset);
                if (lane >= offset) up_to += other;
            }
            const uint32_t behind = __ballot_sync(kAllOfWarp, wanted < before + up_to);
            if (behind != 0) {
                const int owner = __ffs(static_cast<int>(behind)) - 1;
                const uint32_t last = __shfl_sync(kAllOfWarp, before + up_to, owner) - 1;
                return at(p, first + owner, last - wanted, number % a.kv_heads);
            }
            before += __shfl_sync(kAllOfWarp, up_to, 31);
        }
        return {};
    }

private:
    __device__ static uint32_t tiles_of(const AmpereTilesParams& p, uint32_t row) {
        const uint32_t fresh = Sequence::load(p.attend, row).fresh;
        if (fresh <= p.attend.few || (p.widened && p.attend.table_rows[row] == kNowhere)) return 0;
        return (fresh + p.tokens - 1) / p.tokens;
    }

    __device__ static AmpereTile at(const AmpereTilesParams& p, uint32_t row, uint32_t number, uint32_t head) {
        const Sequence sequence = Sequence::load(p.attend, row);
        const uint32_t before = number * p.tokens;
        AmpereTile tile;
        tile.first_token = sequence.first_token + before;
        tile.tokens = min(sequence.fresh - before, p.tokens);
        tile.position = sequence.old() + before;
        tile.head = head;
        const uint32_t reach = tile.position + 1;
        tile.oldest = reach > p.attend.window ? reach - p.attend.window : 0;
        tile.end = tile.position + tile.tokens;
        tile.pages = sequence.pages;
        tile.home = p.widened ? p.attend.table_rows[row] : 0;
        return tile;
    }
};

// A warp's sixteen rows of queries, with their online softmax.
template <int kDim>
struct AmpereRows {
    static constexpr uint32_t kRowBytes = 2 * kDim;
    static constexpr uint32_t kVectors = kDim / 8;
    static constexpr uint32_t kBlockBytes = kKeysAtOnce * kRowBytes;
    // Keys and values of a block.
    static constexpr uint32_t kStageBytes = 2 * kBlockBytes;
    static constexpr int kBytes = 2 * kStageBytes;

    const AmpereTilesParams& p;
    const AmpereTile tile;
    uint32_t query[kDim / 16][4];
    float scores[kKeysAtOnce / 8][4];
    float sums[kDim / 8][4];
    float maxima[2];
    float totals[2];
    // Positions of this thread's two rows.
    uint32_t positions[2];

    __device__ AmpereRows(const AmpereTilesParams& params, const AmpereTile& given) : p(params), tile(given) {
#pragma unroll
        for (int which = 0; which < 2; ++which) {
            positions[which] = tile.position + min(row(which) / p.attend.group, tile.tokens - 1);
            maxima[which] = kLowest;
            totals[which] = 0.0f;
        }
#pragma unroll
        for (int i = 0; i < kDim / 8; ++i) {
#pragma unroll
            for (int j = 0; j < 4; ++j) sums[i][j] = 0.0f;
        }
        load_query();
    }

    // Loops over all key blocks that the tile sees; `shared` has room for two.
    __device__ void attend(uint8_t* shared) {
        const uint32_t first = tile.oldest / kKeysAtOnce, last = (tile.end - 1) / kKeysAtOnce;
        const uint32_t stages = shared_address(shared);
        bring(first, stages);
        cp_async_commit();
#pragma unroll 1
        for (uint32_t block = first; block <= last; ++block) {
            const uint32_t stage = stages + (block - first) % 2 * kStageBytes;
            if (block < last) bring(block + 1, stages + (block + 1 - first) % 2 * kStageBytes);
            cp_async_commit();
            cp_async_wait<1>();
            __syncthreads();
            score(stage);
            bound();
            if (!is_seen_whole(block)) hide(block);
            weigh();
            mix(stage + kBlockBytes);
            // All warps are done with the buffer that the next copies go to.
            __syncthreads();
        }
    }

    __device__ void write() const {
        const AttendParams& a = p.attend;
#pragma unroll
        for (int which = 0; which < 2; ++which) {
            float total = totals[which];
            total += __shfl_xor_sync(kAllOfWarp, total, 1);
            total += __shfl_xor_sync(kAllOfWarp, total, 2);
            if (row(which) >= tile.tokens * a.group) continue;
            const uint32_t head = tile.head * a.group + row(which) % a.group;
            const float scale = a.scale * kLog2E;
            if (a.sinks) total += power_of_two(a.sinks[head] * kLog2E - maxima[which] * scale);
            const float factor = 1.0f / total;
            const size_t token = tile.first_token + row(which) / a.group;
            bf16* out = a.out + token * a.out_stride + head * a.head_dim;
#pragma unroll
            for (int i = 0; i < kDim / 8; ++i) {
                const uint32_t element = i * 8 + threadIdx.x % 4 * 2;
                if (element >= a.head_dim) continue;
                const uint32_t pair = pack_bf16(sums[i][2 * which] * factor, sums[i][2 * which + 1] * factor);
                *reinterpret_cast<uint32_t*>(out + element) = pair;
            }
        }
    }

private:
    __device__ static uint32_t row(int which) {
        return threadIdx.x / 32 * 16 + threadIdx.x % 32 / 4 + which * 8;
    }

    // Swizzled offset of a 16-byte vector in a block: the same vector of eight rows lies in eight different banks.
    __device__ static uint32_t place(uint32_t row, uint32_t vector) {
        return row * kRowBytes + (vector ^ row % 8) * 16;
    }

    // Rows past the end take the last token's.
    __device__ void load_query() {
        const AttendParams& a = p.attend;
#pragma unroll
        for (int which = 0; which < 2; ++which) {
            const uint32_t mine = min(row(which), tile.tokens * a.group - 1);
            const size_t token = tile.first_token + mine / a.group;
            const bf16* from = a.query + token * a.query_stride + (tile.head * a.group + mine % a.group) * a.head_dim;
#pragma unroll
            for (int step = 0; step < kDim / 16; ++step) {
#pragma unroll
                for (int half = 0; half < 2; ++half) {
                    const uint32_t element = step * 16 + half * 8 + threadIdx.x % 4 * 2;
                    const bool there = element < a.head_dim;
                    query[step][which + 2 * half] = there ? *reinterpret_cast<const uint32_t*>(from + element) : 0u;
                }
            }
        }
    }

    // The slot of a position that the tile sees.
    __device__ uint32_t slot(uint32_t position) const {
        const uint32_t size = p.attend.page_size;
        const uint32_t page = p.widened ? tile.home + position / size : tile.pages[position / size];
        return page * size + position % size;
    }

    // Starts the copies of a block. Unseen positions become zeros: a weight of zero times garbage could be NaN.
    __device__ void bring(uint32_t block, uint32_t stage) const {
        const AttendParams& a = p.attend;
        const uint32_t head_bytes = 2 * a.head_dim, vector = threadIdx.x % kVectors;
        if (p.attend.head_dim < kDim && vector * 16 >= head_bytes) {
            clear(vector, stage);
            return;
        }
#pragma unroll
        for (uint32_t row = threadIdx.x / kVectors; row < kKeysAtOnce; row += kTileThreads / kVectors) {
            const uint32_t position = block * kKeysAtOnce + row;
            const bool seen = position >= tile.oldest && position < tile.end;
            const size_t head = seen ? static_cast<size_t>(slot(position)) * a.kv_heads + tile.head : 0;
            const size_t offset = seen ? head * head_bytes + vector * 16 : 0;
            cp_async16(stage + place(row, vector), static_cast<const uint8_t*>(a.keys) + offset, seen);
            cp_async16(stage + kBlockBytes + place(row, vector), static_cast<const uint8_t*>(a.values) + offset, seen);
        }
    }

    // Clears elements past the head dimension.
    __device__ void clear(uint32_t vector, uint32_t stage) const {
        for (uint32_t row = threadIdx.x / kVectors; row < kKeysAtOnce; row += kTileThreads / kVectors) {
            cp_async16(stage + place(row, vector), p.attend.keys, false);
            cp_async16(stage + kBlockBytes + place(row, vector), p.attend.values, false);
        }
    }

    // scores = queries · keysᵀ.
    __device__ void score(uint32_t keys) {
        const uint32_t lane = threadIdx.x % 32;
#pragma unroll
        for (int i = 0; i < kKeysAtOnce / 8; ++i) {
#pragma unroll
            for (int j = 0; j < 4; ++j) scores[i][j] = 0.0f;
        }
#pragma unroll
        for (int step = 0; step < kDim / 16; ++step) {
#pragma unroll
            for (int i = 0; i < kKeysAtOnce / 8; i += 2) {
                // Two groups of eight keys, the first and the second eight elements of each.
                uint32_t b[4];
                ldmatrix(b, keys + place(i * 8 + lane / 16 * 8 + lane % 8, step * 2 + lane / 8 % 2));
                mma_bf16(scores[i], query[step], b[0], b[1]);
                mma_bf16(scores[i + 1], query[step], b[2], b[3]);
            }
        }
    }

    __device__ void bound() {
        const float cap = p.attend.soft_cap;
        if (cap <= 0.0f) return;
        const float inner = p.attend.scale / cap, outer = cap / p.attend.scale;
#pragma unroll
        for (int i = 0; i < kKeysAtOnce / 8; ++i) {
#pragma unroll
            for (int j = 0; j < 4; ++j) scores[i][j] = outer * quick_tanh(scores[i][j] * inner);
        }
    }

    // True when every row of the tile sees all keys of the block.
    __device__ bool is_seen_whole(uint32_t block) const {
        const uint32_t first = block * kKeysAtOnce, last_row = tile.position + tile.tokens - 1;
        return first + kKeysAtOnce <= tile.position + 1 && last_row - first < p.attend.window;
    }

    __device__ void hide(uint32_t block) {
#pragma unroll
        for (int i = 0; i < kKeysAtOnce / 8; ++i) {
#pragma unroll
            for (int j = 0; j < 4; ++j) {
                const uint32_t key = block * kKeysAtOnce + i * 8 + threadIdx.x % 4 * 2 + j % 2, own = positions[j / 2];
                if (key > own || own - key >= p.attend.window) scores[i][j] = -INFINITY;
            }
        }
    }

    // Online softmax: weights are relative to the running maximum, earlier sums are rescaled.
    __device__ void weigh() {
        const float scale = p.attend.scale * kLog2E;
#pragma unroll
        for (int which = 0; which < 2; ++which) {
            float largest = maxima[which];
#pragma unroll
            for (int i = 0; i < kKeysAtOnce / 8; ++i) {
                largest = fmaxf(largest, fmaxf(scores[i][2 * which], scores[i][2 * which + 1]));
            }
            largest = fmaxf(largest, __shfl_xor_sync(kAllOfWarp, largest, 1));
            largest = fmaxf(largest, __shfl_xor_sync(kAllOfWarp, largest, 2));
            const float kept = power_of_two((maxima[which] - largest) * scale), zero = largest * scale;
            maxima[which] = largest;
            float total = 0.0f;
#pragma unroll
            for (int i = 0; i < kKeysAtOnce / 8; ++i) {
#pragma unroll
                for (int j = 2 * which; j < 2 * which + 2; ++j) {
                    scores[i][j] = power_of_two(scores[i][j] * scale - zero);
                    total += scores[i][j];
                }
            }
            totals[which] = totals[which] * kept + total;
#pragma unroll
            for (int i = 0; i < kDim / 8; ++i) {
                sums[i][2 * which] *= kept;
                sums[i][2 * which + 1] *= kept;
            }
        }
    }

    // sums += weights · values.
    __device__ void mix(uint32_t values) {
        const uint32_t lane = threadIdx.x % 32;
#pragma unroll
        for (int step = 0; step < kKeysAtOnce / 16; ++step) {
            const float(&low)[4] = scores[2 * step], (&high)[4] = scores[2 * step + 1];
            const uint32_t weights[4] = {pack_bf16(low[0], low[1]), pack_bf16(low[2], low[3]), pack_bf16(high[0], high[1]),
                                         pack_bf16(high[2], high[3])};
#pragma unroll
            for (int i = 0; i < kDim / 8; i += 2) {
                // The first and the second eight positions of eight elements, then of the next eight.
                uint32_t b[4];
                ldmatrix_trans(b, values + place(step * 16 + lane % 16, i + lane / 16));
                mma_bf16(sums[i], weights, b[0], b[1]);
                mma_bf16(sums[i + 1], weights, b[2], b[3]);
            }
        }
    }
};
