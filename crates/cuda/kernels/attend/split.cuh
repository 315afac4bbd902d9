// Attention of a few new tokens a sequence: every key and value is read once, at the speed of memory.
//
// Four warps share a chunk, each streams every fourth tile of sixteen positions through its own ring in shared memory,
// and they meet at the chunk's end. A grid of a fixed size takes equal shares of all chunks of the batch.
#pragma once
#include "../common/order.cuh"
#include "../common/room.cuh"
#include "cursor.cuh"
#include "split_merge.cuh"
#include "split_tile.cuh"

template <int kDim, int kColumns, typename Kv>
struct Split {
    using Tile = SplitTile<kDim, Kv>;
    static constexpr int kGroups = kColumns / kGroupColumns;
    static constexpr int kStage = 2 * Tile::kBytes;
    // Two blocks a multiprocessor, one for the widest heads.
    static constexpr int kBlocks = kDim <= 128 ? 2 : 1;
    static constexpr int kRing = (kBlocks == 2 ? kHalfRoom : kWholeRoom) - static_cast<int>(sizeof(Meeting<kDim>));
    static constexpr int kFit = kRing / (kWarps * kStage);
    static constexpr int kStages = kFit < 6 ? kFit : 6;
    static_assert(kStages >= 2, "a tile is on its way while another is used");

    // The tiles of this warp, in the order of its share, and the slot of this lane's position in the next one.
    struct Stream {
        Cursor cursor;
        uint32_t token;
        uint32_t stop;
        uint32_t slot;
        bool live;

        __device__ void begin(const AttendParams& p, const Share& share, const Cursor& from) {
            cursor = from;
            open(p, share);
            settle(p, share);
        }

        __device__ void advance(const AttendParams& p, const Share& share) {
            token += kWarps * kTile;
            settle(p, share);
        }

        // True when the tile holds nothing that this step stores.
        __device__ bool is_old() const { return token + kTile <= cursor.sequence.old(); }

    private:
        __device__ void open(const AttendParams& p, const Share& share) {
            live = cursor.live(p, share);
            if (!live) return;
            token = first_tile(p, cursor);
            stop = tile_end(p, cursor);
        }

        __device__ void settle(const AttendParams& p, const Share& share) {
            while (live && token >= stop) {
                cursor.advance(p, kColumns);
                open(p, share);
            }
            slot = kNoSlot;
            if (!live) return;
            const uint32_t position = token + threadIdx.x % kTile;
            if (position < cursor.oldest(p, kColumns) || position >= cursor.visible_end(p, kColumns)) return;
            slot = cursor.sequence.pages[position / p.page_size] * p.page_size + position % p.page_size;
        }
    };

    // The first position of this warp's first tile of a chunk that anybody sees, and the end of what is seen of it.
    __device__ static uint32_t first_tile(const AttendParams& p, const Cursor& cursor) {
        const uint32_t first = first_unit_of(cursor.chunk) * kUnit + threadIdx.x / 32 * kTile;
        const uint32_t oldest = cursor.oldest(p, kColumns);
        if (first + kTile > oldest) return first;
        return first + (oldest - first) / (kWarps * kTile) * (kWarps * kTile);
    }
    __device__ static uint32_t tile_end(const AttendParams& p, const Cursor& cursor) {
        return min(first_unit_of(cursor.chunk + 1) * kUnit, cursor.visible_end(p, kColumns));
    }

    uint8_t* ring;
    Meeting<kDim>* meeting;
    uint32_t head;
    Stream stream;
    uint32_t loading;
    uint32_t using_;
    uint32_t query[kGroups][kDim / 16][2];
    float sums[kDim / 16][kGroups][4];
    float maxima[kGroups][2];
    float totals[kGroups][2];

    // Starts the copies of the next tile, if there is one.
    __device__ void load_next(const AttendParams& p, const Share& share) {
        if (stream.live) {
            Tile::load(p, ring + loading * kStage, stream.slot, head);
            stream.advance(p, share);
        }
        commit_copies();
        loading = loading + 1 == kStages ? 0 : loading + 1;
    }

    // Queries as the second factor of a product: this lane has column `lane / 4` of each group.
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

    // Takes what a column does not see out of the scores of a tile.
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
        float scores[kGroups][4] = {};
        Tile::score(address, query, scores);
        const uint32_t earliest = cursor.sequence.old() + cursor.block * kColumns / p.group;
        const uint32_t end = cursor.visible_end(p, kColumns);
        const bool whole = token + kTile <= earliest + 1 && token >= end - min(p.window, end);
#pragma unroll
        for (int group = 0; group < kGroups; ++group) {
#pragma unroll
            for (int i = 0; i < 4; ++i) scores[group][i] = scaled_score(p, scores[group][i]);
        }
        if (!whole) hide(p, cursor, token, scores);
        uint32_t weights[kGroups][2];
#pragma unroll
        for (int group = 0; group < kGroups; ++group) weigh(group, scores[group], weights[group]);
        Tile::mix(address + Tile::kBytes, weights, sums);
    }

    // Scores become weights relative to the largest so far; what was summed before shrinks with it.
    __device__ void weigh(int group, float (&scores)[4], uint32_t (&weights)[2]) {
        bool grew = false;
        float kept[2];
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            float largest = fmaxf(scores[i], scores[i + 2]);
#pragma unroll
            for (int offset = 4; offset < 32; offset *= 2) {
                largest = fmaxf(largest, __shfl_xor_sync(kAllLanes, largest, offset));
            }
            largest = fmaxf(largest, maxima[group][i]);
            grew = grew || largest > maxima[group][i];
            kept[i] = power_of_two(maxima[group][i] - largest);
            maxima[group][i] = largest;
            scores[i] = power_of_two(scores[i] - largest);
            scores[i + 2] = power_of_two(scores[i + 2] - largest);
            totals[group][i] = totals[group][i] * kept[i] + (scores[i] + scores[i + 2]);
        }
        if (__any_sync(kAllLanes, grew)) {
#pragma unroll
            for (int step = 0; step < kDim / 16; ++step) {
#pragma unroll
                for (int i = 0; i < 4; ++i) sums[step][group][i] *= kept[i % 2];
            }
        }
        weights[0] = transpose_matrix(Tile::pack(scores[0], scores[1]));
        weights[1] = transpose_matrix(Tile::pack(scores[2], scores[3]));
    }

    // Goes over this warp's tiles of a chunk.
    __device__ void use_chunk(const AttendParams& p, const Share& share, const Cursor& cursor) {
        const uint32_t stop = tile_end(p, cursor);
        for (uint32_t token = first_tile(p, cursor); token < stop; token += kWarps * kTile) {
            wait_copies<kStages - 2>();
            __syncwarp();
            load_next(p, share);
            use_tile(p, cursor, token, shared_address(ring + using_ * kStage));
            using_ = using_ + 1 == kStages ? 0 : using_ + 1;
        }
    }

    // Puts eight columns of this warp's results where the block meets.
    __device__ void bring(int group) const {
        const uint32_t lane = threadIdx.x % 32, warp = threadIdx.x / 32;
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            float total = totals[group][i];
#pragma unroll
            for (int offset = 4; offset < 32; offset *= 2) total += __shfl_xor_sync(kAllLanes, total, offset);
            if (lane < 4) {
                meeting->maxima[warp][lane * 2 + i] = maxima[group][i];
                meeting->totals[warp][lane * 2 + i] = total;
            }
        }
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
