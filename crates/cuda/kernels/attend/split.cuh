// Split-KV attention of a few new tokens per sequence: every key and value is read once, at memory bandwidth.
//
// Four warps share a chunk: each streams every fourth tile of sixteen positions through its own ring in shared memory, and
// they merge at the chunk's end. A grid of a fixed size takes equal shares of all chunks of the batch.
#pragma once
#include "../common/order.cuh"
#include "../common/room.cuh"
#include "cursor.cuh"
#include "split_merge.cuh"
#include "split_tile.cuh"

template <int kDim, int kColumns, typename Kv, int kRoom>
struct Split {
    using Tile = SplitTile<kDim, Kv>;
    static constexpr int kGroups = kColumns / kGroupColumns;
    static constexpr int kStage = 2 * Tile::kBytes;
    // From one tile of a warp to the next.
    static constexpr uint32_t kStride = kWarps * kTile;
    static constexpr int kRing = kRoom - static_cast<int>(sizeof(Meeting<kDim>));
    static constexpr int kFit = kRing / (kWarps * kStage);
    static constexpr int kStages = kFit < 6 ? kFit : 6;
    static_assert(kStages >= 2, "a tile is on its way while another is used");

    // This warp's tiles in the order of its share, and the slot of the next one's first position, or of this lane's position
    // where tiles cross pages.
    struct Stream {
        Cursor cursor;
        uint32_t token;
        uint32_t stop;
        uint32_t slot;
        bool live;

        // Moves to the next tile from where `token` and `stop` are.
        __device__ void settle(const AttendParams& p, const Share& share) {
#pragma unroll 1
            while (live && token >= stop) {
                cursor.advance(p, kColumns);
                open(p, share);
            }
            if (!live) return;
            if (p.page_shift != 0) {
                slot = (cursor.sequence.pages[token >> p.page_shift] << p.page_shift) + (token & (p.page_size - 1));
                return;
            }
            const uint32_t position = token + threadIdx.x % kTile;
            slot = kNoSlot;
            if (position < cursor.sight.oldest || position >= cursor.sight.end) return;
            slot = cursor.sequence.pages[position / p.page_size] * p.page_size + position % p.page_size;
        }

        __device__ void open(const AttendParams& p, const Share& share) {
            live = cursor.live(p, share);
            token = first_tile(cursor);
            stop = tile_end(cursor);
        }

        // True when the tile has nothing that this step stores.
        __device__ bool is_old() const { return token + kTile <= cursor.sequence.old(); }

        __device__ void load(const AttendParams& p, uint8_t* stage, uint32_t head) const {
            if (p.page_shift == 0) {
                Tile::load_slots(p, stage, slot, head);
                return;
            }
            const uint32_t begin = cursor.sight.oldest > token ? cursor.sight.oldest - token : 0;
            Tile::load_run(p, stage, slot, head, begin, min(cursor.sight.end - token, static_cast<uint32_t>(kTile)));
        }
    };

    // The first position of this warp's first visible tile of a chunk, and the end of the visible positions.
    __device__ static uint32_t first_tile(const Cursor& cursor) {
        const uint32_t first = first_unit_of(cursor.chunk) * kUnit + threadIdx.x / 32 * kTile;
        if (first + kTile > cursor.sight.oldest) return first;
        return first + (cursor.sight.oldest - first) / kStride * kStride;
    }
    __device__ static uint32_t tile_end(const Cursor& cursor) {
        return min(first_unit_of(cursor.chunk + 1) * kUnit, cursor.sight.end);
    }

    uint8_t* ring;
    Meeting<kDim>* meeting;
    uint32_t head;
    Stream stream;
    // Stages to be loaded next and used next, and how many are in flight.
    uint32_t loading;
    uint32_t using_;
    uint32_t ahead;
    bool waited;
    bool has_query;
    uint32_t query[kGroups][kDim / 16][2];
    float sums[kDim / 16][kGroups][4];
    float maxima[kGroups][2];
    float totals[kGroups][2];

    __device__ Split(const AttendParams& p, const Share& share, const Cursor& first, uint8_t* shared) {
        ring = shared + threadIdx.x / 32 * kStages * kStage;
        meeting = reinterpret_cast<Meeting<kDim>*>(shared + kWarps * kStages * kStage);
        head = blockIdx.x % p.kv_heads;
        loading = using_ = ahead = 0;
        waited = has_query = false;
        stream.cursor = first;
        stream.open(p, share);
        stream.settle(p, share);
    }

    __device__ void wait_once() {
        if (!waited) wait_on_dependent_grids();
        waited = true;
    }

    // Keeps the ring full, then waits for the next tile; a row's queries come with its first tile.
    __device__ void await_tile(const AttendParams& p, const Share& share, const Cursor& cursor) {
        // All lanes are done with the previous tile.
        __syncwarp();
#pragma unroll 1
        for (; ahead < kStages; ++ahead) {
            if (stream.live) {
                if (!waited && !stream.is_old()) wait_once();
                stream.load(p, ring + loading * kStage, head);
                stream.token += kStride;
                stream.settle(p, share);
            }
            cp_async_commit();
            loading = loading + 1 == kStages ? 0 : loading + 1;
        }
        if (!has_query) {
            wait_once();
            load_query(p, cursor);
            has_query = true;
        }
        cp_async_wait<kStages - 1>();
        __syncwarp();
    }

    // Queries as operand B: this lane has column `lane / 4` of each group.
    __device__ void load_query(const AttendParams& p, const Cursor& cursor) {
#pragma unroll
        for (int group = 0; group < kGroups; ++group) {
            const uint32_t column = cursor.block * kColumns + group * kGroupColumns + threadIdx.x % 32 / 4;
            const bool used = column < cursor.sequence.fresh * p.group;
            const size_t token = cursor.sequence.first_token + (used ? column / p.group : 0);
            const uint32_t query_head = head * p.group + (used ? column % p.group : 0);
            const bf16* from = p.query + token * p.query_stride + query_head * p.head_dim;
#pragma unroll
            for (int step = 0; step < kDim / 16; ++step) {
#pragma unroll
                for (int pair = 0; pair < 2; ++pair) {
                    const uint32_t at = Tile::query_element(step, pair);
                    const float low = used && at < p.head_dim ? __bfloat162float(from[at]) : 0.0f;
                    const float high = used && at + 1 < p.head_dim ? __bfloat162float(from[at + 1]) : 0.0f;
                    query[group][step][pair] = Tile::pack(low, high);
                }
            }
        }
    }

    __device__ void clear() {
#pragma unroll
        for (int group = 0; group < kGroups; ++group) {
#pragma unroll
            for (int i = 0; i < 2; ++i) {
                maxima[group][i] = kLowest;
                totals[group][i] = 0.0f;
            }
#pragma unroll
            for (int step = 0; step < kDim / 16; ++step) {
#pragma unroll
                for (int i = 0; i < 4; ++i) sums[step][group][i] = 0.0f;
            }
        }
    }

    // Masks scores that a column must not see.
    __device__ void hide(const AttendParams& p, const Cursor& cursor, uint32_t token, float (&scores)[kGroups][4]) const {
        const uint32_t lane = threadIdx.x % 32;
#pragma unroll
        for (int group = 0; group < kGroups; ++group) {
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                const uint32_t column = cursor.block * kColumns + group * kGroupColumns + lane % 4 * 2 + i % 2;
                const uint32_t position = token + lane / 4 + i / 2 * 8, own = cursor.sequence.old() + column / p.group;
                if (position > own || own - position >= p.window) scores[group][i] = -INFINITY;
            }
        }
    }

    __device__ void use_tile(const AttendParams& p, const Cursor& cursor, uint32_t token, uint32_t address) {
        float scores[kGroups][4];
        Tile::score(address, query, scores);
        if (p.soft_cap > 0.0f) {
            const float inner = p.scale / p.soft_cap, outer = p.soft_cap / p.scale;
#pragma unroll
            for (int group = 0; group < kGroups; ++group) {
#pragma unroll
                for (int i = 0; i < 4; ++i) scores[group][i] = outer * tanhf(scores[group][i] * inner);
            }
        }
        if (token < cursor.sight.whole_begin || token + kTile > cursor.sight.whole_end) hide(p, cursor, token, scores);
        uint32_t weights[kGroups][2];
#pragma unroll
        for (int group = 0; group < kGroups; ++group) weigh(p.scale * kLog2E, group, scores[group], weights[group]);
        Tile::mix(address + Tile::kBytes, weights, sums);
    }

    // Online softmax: weights are relative to the running maximum, earlier sums are rescaled.
    __device__ void weigh(float scale, int group, float (&scores)[4], uint32_t (&weights)[2]) {
        bool grew = false;
        float kept[2];
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            float largest = fmaxf(scores[i], scores[i + 2]);
#pragma unroll
            for (int offset = 4; offset < 32; offset *= 2) {
                largest = fmaxf(largest, __shfl_xor_sync(kAllLanes, largest, offset));
            }
            largest = fmaxf(largest * scale, maxima[group][i]);
            grew = grew || largest > maxima[group][i];
            kept[i] = power_of_two(maxima[group][i] - largest);
            maxima[group][i] = largest;
            scores[i] = power_of_two(scores[i] * scale - largest);
            scores[i + 2] = power_of_two(scores[i + 2] * scale - largest);
            totals[group][i] = totals[group][i] * kept[i] + (scores[i] + scores[i + 2]);
        }
        if (__any_sync(kAllLanes, grew)) {
#pragma unroll
            for (int step = 0; step < kDim / 16; ++step) {
#pragma unroll
                for (int i = 0; i < 4; ++i) sums[step][group][i] *= kept[i % 2];
            }
        }
        weights[0] = movmatrix_trans(Tile::pack(scores[0], scores[1]));
        weights[1] = movmatrix_trans(Tile::pack(scores[2], scores[3]));
    }

    // Loops over this warp's tiles of a chunk.
    __device__ void use_chunk(const AttendParams& p, const Share& share, const Cursor& cursor) {
        const uint32_t stop = tile_end(cursor);
#pragma unroll 1
        for (uint32_t token = first_tile(cursor); token < stop; token += kStride) {
            await_tile(p, share, cursor);
            use_tile(p, cursor, token, shared_address(ring + using_ * kStage));
            using_ = using_ + 1 == kStages ? 0 : using_ + 1;
            --ahead;
        }
    }

    // Stores this warp's results for the first `used` of eight columns to the block's shared memory.
    __device__ void bring(int group, uint32_t used) const {
        const uint32_t lane = threadIdx.x % 32, warp = threadIdx.x / 32;
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            float total = totals[group][i];
#pragma unroll
            for (int offset = 4; offset < 32; offset *= 2) total += __shfl_xor_sync(kAllLanes, total, offset);
            if (lane < 4) {
                meeting->maxima[lane * 2 + i][warp] = maxima[group][i];
                meeting->totals[lane * 2 + i][warp] = total;
            }
        }
        // Two neighbours per lane; one store too many does no harm.
        if (lane % 4 * 2 >= used) return;
#pragma unroll
        for (int step = 0; step < kDim / 16; ++step) {
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                const uint32_t element = Tile::element(step, lane / 4 + i / 2 * 8);
                meeting->sums[warp][lane % 4 * 2 + i % 2][element] = sums[step][group][i];
            }
        }
    }
};
