// Decode attention (one new token per sequence), head dimension 128.
//
// A block takes KV splits, a warp takes tiles of 32 positions. Cached keys and values are loaded before the stage that
// makes the new token has ended.
#pragma once
#include "../common/approximate.cuh"
#include "../common/float8.cuh"
#include "../common/head.cuh"
#include "../common/mma.cuh"
#include "messages.cuh"
#include "kv_split.cuh"

// N of the MMA: query heads of a KV head's group.
constexpr int kMostHeads = 8;
// MMA steps of sixteen elements of a head.
constexpr int kSteps = kHeadDim / 16;
// Floats between heads. Padded so that neighbouring lanes write to different banks.
constexpr int kHeadStride = kHeadDim + 4;
// Pairs of neighbouring elements of a head.
constexpr uint32_t kPairs = kHeadDim / 2;

struct AttendShared {
    bf16 query[kMostHeads][kHeadDim];
    // In the cache's element type.
    alignas(16) bf16 key[kHeadDim];
    alignas(16) bf16 value[kHeadDim];
};

// The current KV split. It is the same in the next layer where a block has only one. Also the batch it belongs to, the number
// of splits, and the RoPE angles of its token.
struct KnownSplit {
    KvSplit part;
    const uint32_t* page_table;
    uint32_t heads;
    uint32_t count;
    float angles[kHeadDim];
};

// Partial softmax of two neighbouring elements: maximum, sum of weights, weighted sum.
struct Merged {
    float highest = kLowest;
    float total = 0.0f;
    float2 sum{};

    __device__ __forceinline__ void add(const float2& scale, const float2& other) {
        const float most = fmaxf(highest, scale.x);
        const float mine = power_of_two(highest - most), theirs = power_of_two(scale.x - most);
        highest = most;
        total = total * mine + scale.y * theirs;
        sum.x = sum.x * mine + other.x * theirs;
        sum.y = sum.y * mine + other.y * theirs;
    }

    // Merges the partial softmax of the lane whose number differs in this bit.
    __device__ __forceinline__ void add_other(uint32_t bit) {
        const float2 scale{__shfl_xor_sync(kAllLanes, highest, bit), __shfl_xor_sync(kAllLanes, total, bit)};
        add(scale, {__shfl_xor_sync(kAllLanes, sum.x, bit), __shfl_xor_sync(kAllLanes, sum.y, bit)});
    }
};

// `kNarrow`: keys and values are e4m3 and are widened to f16.
template <bool kNarrow>
struct StageAttention {
    using Head = EvenHead<kHeadDim / 32>;

    const AttendStage& a;
    const Ring& ring;
    const Messages& messages;
    AttendShared* shared;
    KnownSplit* known;
    // Partial sums of warps, with their maxima and totals; they use the memory of the rows of x.
    float* found;
    float2* scales;
    const KvSplit& part;
    const uint32_t warp = warp_number();
    const uint32_t lane = threadIdx.x % 32;
    // Pairs of every sixteen elements: 2 · (lane % 4) and its neighbour, and eight further; for codes, the four elements from
    // 4 · (lane % 4) on.
    uint32_t query[kSteps][2];
    // Of heads 2 · (lane % 4) and its neighbour.
    float highest[2];
    float total[2];
    // Of elements lane / 4 and lane / 4 + 8 of every sixteen, for these heads; of codes, elements lane / 4 · 2 and the next.
    float sums[kSteps][4];

    __device__ StageAttention(const AttendStage& attend, const Ring& cached, const Messages& sent, AttendShared* some,
                              KnownSplit* last, uint8_t* room)
        : a(attend),
          ring(cached),
          messages(sent),
          shared(some),
          known(last),
          found(reinterpret_cast<float*>(room)),
          scales(reinterpret_cast<float2*>(found + kWarps * attend.group * kHeadStride)),
          part(last->part) {}

    // All splits of this block, then the merge of its share of results.
    __device__ void run(PipelineState& place) {
        bool is_known = known->page_table == a.page_table && known->heads == a.kv_heads;
#pragma unroll 1
        for (uint32_t turn = 0; turn < 2; ++turn) {
            uint32_t number = blockIdx.x;
#pragma unroll 1
            do {
                if (!is_known || part.number != number) find(number);
                is_known = true;
                if (number >= known->count) return;
                if (turn == 0) {
                    prepare();
                    attend(place);
                    send_split();
                } else {
                    merge_splits();
                }
                number += gridDim.x;
            } while (number < known->count);
        }
    }

private:
    __device__ void find(uint32_t number) {
        // All warps are done with the previous split and its partial sums.
        named_barrier_sync(1, kComputing);
        if (threadIdx.x == 0) {
            known->part = find_split(a, number, known->count);
            known->page_table = a.page_table;
            known->heads = a.kv_heads;
        }
        __syncwarp();
        named_barrier_sync(1, kComputing);
        if (threadIdx.x < kHeadDim && number < known->count) {
            known->angles[threadIdx.x] = a.fresh.table[static_cast<size_t>(part.position) * kHeadDim + threadIdx.x];
        }
        named_barrier_sync(1, kComputing);
    }

    // Query heads of the group, and the new key and value if they belong to this split: one warp per head.
    __device__ void prepare() {
        const typename Head::Angles angles(known->angles, kHeadDim, nullptr);
        const uint32_t queries = a.kv_heads * a.group * kHeadDim;
        const uint32_t jobs = a.group + (part.has_newest() ? 2 : 0);
#pragma unroll 1
        for (uint32_t job = warp; job < jobs; job += kWarps) {
            const bool is_query = job < a.group, is_value = job > a.group;
            const HeadNorm wanted = is_query ? HeadNorm{a.fresh.query_norm, a.fresh.query_eps, a.fresh.wide_norms}
                                             : HeadNorm{is_value ? nullptr : a.fresh.key_norm, a.fresh.key_eps, a.fresh.wide_norms};
            const typename Head::Norm norm(wanted);
            const uint32_t number = is_query ? part.head * a.group + job : part.head;
            Head head;
            if (messages.from_results) {
                // Queries, keys and values are neighbours in a row.
                const uint32_t before = is_query ? 0 : queries + (is_value ? a.kv_heads * kHeadDim : 0);
                receive_head(before + number * kHeadDim, head);
            } else {
                const bf16* matrix = is_query ? a.query : is_value ? a.fresh.value : a.fresh.key;
                const uint32_t stride = is_query ? a.query_stride : is_value ? a.fresh.value_stride : a.fresh.key_stride;
                head.load(matrix + static_cast<size_t>(part.token) * stride + number * kHeadDim, kHeadDim);
            }
            if (wanted.weight) head.normalise(norm, kHeadDim);
            if (!is_value) head.rotate(angles);
            if (is_query) {
                head.store(shared->query[job], kHeadDim);
            } else {
                keep(head, is_value ? shared->value : shared->key, is_value ? a.values : a.keys);
            }
        }
        named_barrier_sync(1, kComputing);
#pragma unroll
        for (int step = 0; step < kSteps; ++step) {
            const bf16* sixteen = &shared->query[lane / 4][step * 16];
            if constexpr (kNarrow) {
                const uint2 four = *reinterpret_cast<const uint2*>(sixteen + lane % 4 * 4);
                const float2 first = as_floats(four.x), second = as_floats(four.y);
                query[step][0] = pack_f16(first.x, first.y);
                query[step][1] = pack_f16(second.x, second.y);
            } else {
#pragma unroll
                for (int i = 0; i < 2; ++i) query[step][i] = *reinterpret_cast<const uint32_t*>(sixteen + i * 8 + lane % 4 * 2);
            }
        }
    }

    // Stores the new key or value to shared memory and to the cache.
    __device__ __forceinline__ void keep(const Head& head, bf16* here, void* cache) const {
        const size_t first = (static_cast<size_t>(part.slot) * a.kv_heads + part.head) * kHeadDim;
        if constexpr (kNarrow) {
            head.store_narrow(reinterpret_cast<__nv_fp8_e4m3*>(here), kHeadDim);
            head.store_narrow(static_cast<__nv_fp8_e4m3*>(cache) + first, kHeadDim);
        } else {
            head.store(here, kHeadDim);
            head.store(static_cast<bf16*>(cache) + first, kHeadDim);
        }
    }

    // A head of the new token, from element `first` of the messages on.
    __device__ __forceinline__ void receive_head(uint32_t first, Head& head) const {
        const uint64_t* from = messages.from_results + part.token * kResultWords + first / 2 + 2 * lane;
        MessagePair some;
#pragma unroll 1
        do some.load(from);
        while (any_lane(!some.have_epoch(messages.from_epoch)));
        const uint2 four = some.data();
        head.take(reinterpret_cast<const __nv_bfloat162(&)[2]>(four));
    }

    // Tiles of the split, round robin over warps. Every warp waits for every tile: a warp that skipped some could be one ring
    // phase ahead of a tile in flight and mistake the previous phase for its own.
    __device__ void attend(PipelineState& place) {
        highest[0] = highest[1] = kLowest;
        total[0] = total[1] = 0.0f;
#pragma unroll
        for (int step = 0; step < kSteps; ++step) {
#pragma unroll
            for (int i = 0; i < 4; ++i) sums[step][i] = 0.0f;
        }
        const uint32_t tiles = part.tiles();
#pragma unroll 1
        for (uint32_t tile = 0; tile < tiles; ++tile, place.advance(ring.count)) {
            ring.full[place.index].wait(place.parity);
            if (tile % kWarps != warp) {
                __syncwarp();
                if (lane == 0) ring.empty[place.index].arrive();
                continue;
            }
            use(part.begin + tile * kTilePositions, ring.at(place));
            __syncwarp();
            if (lane == 0) ring.empty[place.index].arrive();
        }
    }

    __device__ void use(uint32_t first, uint8_t* tile) {
        if (first + kTilePositions >= part.length) complete(first, tile);
        const uint32_t keys = shared_address(tile), values = keys + kTileBytes / 2;
        float weights[2][4];
        score(first, keys, weights);
        weigh(weights);
        mix(values, weights);
    }

    // Offset of a swizzled 16-byte vector of a position within a tile.
    __device__ __forceinline__ uint32_t offset(uint32_t row, uint32_t vector) const {
        const uint32_t turned = (vector % 8 ^ row % 8) * 16;
        if constexpr (kNarrow) {
            return row * 128 + turned;
        } else {
            const uint32_t copy = row >> a.run_shift, within = row - (copy << a.run_shift);
            return (((copy * 2 + vector / 8) << a.run_shift) + within) * 128 + turned;
        }
    }

    // Writes the newest position, which was not in the cache when the tile was loaded, and clears what follows it.
    __device__ void complete(uint32_t first, uint8_t* tile) const {
        // Vectors of a position.
        const uint32_t vectors = kNarrow ? 8 : 16;
        const uint32_t newest = part.length - 1 - first, vector = lane % vectors, turn = lane / vectors;
        if (turn < 2) {
            const uint4* fresh = reinterpret_cast<const uint4*>(turn == 0 ? shared->key : shared->value);
            *reinterpret_cast<uint4*>(tile + turn * (kTileBytes / 2) + offset(newest, vector)) = fresh[vector];
        }
#pragma unroll 1
        for (uint32_t row = newest + 1 + turn; row < kTilePositions; row += 32 / vectors) {
            *reinterpret_cast<uint4*>(tile + kTileBytes / 2 + offset(row, vector)) = uint4{};
        }
        // The TMA engine writes here next.
        publish_shared();
        __syncwarp();
    }

    // Scores of positions lane / 4 and lane / 4 + 8 of every sixteen.
    __device__ __forceinline__ void score(uint32_t first, uint32_t keys, float (&scores)[2][4]) const {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            const uint32_t row = half * 16 + lane % 16;
            float some[2][4] = {};
            if constexpr (kNarrow) {
                score_codes(keys, row, some);
            } else {
#pragma unroll
                for (int step = 0; step < kSteps; ++step) {
                    uint32_t key[4];
                    ldmatrix(key, keys + offset(row, step * 2 + lane / 16));
                    mma_bf16(some[step % 2], key, query[step][0], query[step][1]);
                }
            }
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                const bool there = first + half * 16 + lane / 4 + i / 2 * 8 < part.length;
                scores[half][i] = there ? (some[0][i] + some[1][i]) * (a.scale * kLog2E) : kLowest;
            }
        }
    }

    // Four neighbouring e4m3 codes make one word; a step covers two 16-byte vectors.
    __device__ __forceinline__ void score_codes(uint32_t keys, uint32_t row, float (&some)[2][4]) const {
#pragma unroll
        for (int step = 0; step < kSteps; step += 2) {
            uint32_t words[4];
            ldmatrix(words, keys + offset(row, step + lane / 16));
#pragma unroll
            for (int i = 0; i < 2; ++i) {
                uint32_t key[4];
                widen_fp8(words[2 * i], key[0], key[2]);
                widen_fp8(words[2 * i + 1], key[1], key[3]);
                mma_f16(some[i], key, query[step + i][0], query[step + i][1]);
            }
        }
    }

    // Online softmax: weights are relative to the running maximum, earlier sums are rescaled.
    __device__ __forceinline__ void weigh(float (&scores)[2][4]) {
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            float most = fmaxf(fmaxf(scores[0][i], scores[0][i + 2]), fmaxf(scores[1][i], scores[1][i + 2]));
#pragma unroll
            for (int offset = 4; offset < 32; offset *= 2) most = fmaxf(most, __shfl_xor_sync(kAllLanes, most, offset));
            most = fmaxf(most, highest[i]);
            const float factor = power_of_two(highest[i] - most);
            highest[i] = most;
            total[i] *= factor;
#pragma unroll
            for (int half = 0; half < 2; ++half) {
#pragma unroll
                for (int j = i; j < 4; j += 2) {
                    scores[half][j] = power_of_two(scores[half][j] - most);
                    total[i] += scores[half][j];
                }
            }
#pragma unroll
            for (int step = 0; step < kSteps; ++step) {
                sums[step][i] *= factor;
                sums[step][i + 2] *= factor;
            }
        }
    }

    __device__ static uint32_t pack(float low, float high) { return kNarrow ? pack_f16(low, high) : pack_bf16(low, high); }

    __device__ __forceinline__ void mix(uint32_t values, const float (&weights)[2][4]) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            const uint32_t low = movmatrix_trans(pack(weights[half][0], weights[half][1]));
            const uint32_t high = movmatrix_trans(pack(weights[half][2], weights[half][3]));
            if constexpr (kNarrow) {
                mix_codes(values, half * 16 + lane % 16, low, high);
            } else {
                const uint32_t row = half * 16 + lane / 16 * 8 + lane % 8;
#pragma unroll
                for (int step = 0; step < kSteps; ++step) {
                    uint32_t value[4];
                    ldmatrix_trans(value, values + offset(row, step * 2 + lane / 8 % 2));
                    mma_bf16(sums[step], value, low, high);
                }
            }
        }
    }

    // Transposed words hold two elements of two positions.
    __device__ __forceinline__ void mix_codes(uint32_t values, uint32_t row, uint32_t low, uint32_t high) {
#pragma unroll
        for (int step = 0; step < kSteps; step += 2) {
            uint32_t words[4];
            ldmatrix_trans(words, values + offset(row, step + lane / 16));
#pragma unroll
            for (int i = 0; i < 2; ++i) {
                uint32_t value[4];
                widen_fp8_pairs(words[2 * i], value[0], value[1]);
                widen_fp8_pairs(words[2 * i + 1], value[2], value[3]);
                mma_f16(sums[step + i], value, low, high);
            }
        }
    }

    // Merges the warps' partial sums and sends the result to the blocks that have splits of the same sequence.
    __device__ void send_split() {
        const uint32_t columns = lane % 4 * 2;
        // Warps that had a tile.
        const uint32_t workers = min(part.tiles(), static_cast<uint32_t>(kWarps));
        if (warp < workers) {
#pragma unroll
            for (int i = 0; i < 2; ++i) {
#pragma unroll
                for (int offset = 4; offset < 32; offset *= 2) total[i] += __shfl_xor_sync(kAllLanes, total[i], offset);
                if (columns + i >= a.group) continue;
                if (lane < 4) scales[warp * kMostHeads + columns + i] = {highest[i], total[i]};
                float* to = found + (warp * a.group + columns + i) * kHeadStride + lane / 4 * (kNarrow ? 2 : 1);
                const uint32_t second = kNarrow ? 1 : 8;
#pragma unroll
                for (int step = 0; step < kSteps; ++step) {
                    to[step * 16] = sums[step][i];
                    to[step * 16 + second] = sums[step][i + 2];
                }
            }
        }
        __syncwarp();
        named_barrier_sync(1, kComputing);
#pragma unroll 1
        for (uint32_t pair = threadIdx.x; pair < a.group * kPairs; pair += kComputing) {
            const uint32_t head = pair / kPairs, element = pair % kPairs * 2;
            Merged merged;
            const float* sum = found + head * kHeadStride + element;
            const float2* scale = scales + head;
#pragma unroll 1
            for (uint32_t other = 0; other < workers; ++other) {
                merged.add(*scale, *reinterpret_cast<const float2*>(sum));
                sum += a.group * kHeadStride;
                scale += kMostHeads;
            }
            // Tagged with the epoch of this stage's messages.
            const uint32_t place = part.number * kMostHeads + head;
            send_pair(a.part_sums + place * kHeadDim + element, merged.sum.x, merged.sum.y, messages.to_epoch);
            if (element == 0) send_pair(a.part_scales + 2 * place, merged.highest, merged.total, messages.to_epoch);
        }
        __syncwarp();
    }

    // Each split merges a share of the results: a thread receives one pair of one split, then eight lanes merge a pair.
    __device__ void merge_splits() {
        const uint32_t all = a.group * kPairs, parts = part.parts;
        const uint32_t each = Inverse(parts).of(all - 1) + 1;
        const uint32_t begin = min((part.number - part.first_number) * each, all), count = min(each, all - begin);
        const Inverse by_count(count);
        Merged* seen = reinterpret_cast<Merged*>(found);
        // All warps have read the partial sums.
        named_barrier_sync(1, kComputing);
        const uint32_t all_seen = count * parts;
#pragma unroll 1
        for (uint32_t first = warp * 32; first < all_seen; first += kComputing) {
            // Whole warps poll; lanes past the end poll the last entry.
            const uint32_t i = min(first + lane, all_seen - 1), other = by_count.of(i), pair = begin + i - other * count;
            const Merged received = receive_pair((part.first_number + other) * kMostHeads + pair / kPairs, pair % kPairs * 2);
            if (first + lane < all_seen) seen[i] = received;
        }
        __syncwarp();
        named_barrier_sync(1, kComputing);
        constexpr uint32_t kAdding = 8;
#pragma unroll 1
        for (uint32_t first = warp * (32 / kAdding); first < count; first += kComputing / kAdding) {
            const uint32_t mine = first + lane / kAdding;
            Merged merged;
#pragma unroll 1
            for (uint32_t other = lane % kAdding; other < parts; other += kAdding) {
                const Merged& some = seen[other * count + min(mine, count - 1)];
                merged.add({some.highest, some.total}, some.sum);
            }
#pragma unroll 1
            for (uint32_t offset = 1; offset < kAdding; offset *= 2) merged.add_other(offset);
            if (lane % kAdding == 0 && mine < count) write((begin + mine) / kPairs, (begin + mine) % kPairs * 2, merged);
            __syncwarp();
        }
    }

    // Polls for a split's result of two elements.
    __device__ __forceinline__ Merged receive_pair(uint32_t place, uint32_t element) const {
        MessagePair scale, sum;
        const uint64_t *scale_words = a.part_scales + 2 * place, *sum_words = a.part_sums + place * kHeadDim + element;
#pragma unroll 1
        do {
            scale.load(scale_words);
            sum.load(sum_words);
        } while (any_lane(!scale.have_epoch(messages.to_epoch) || !sum.have_epoch(messages.to_epoch)));
        const float2 both = floats(scale);
        return {both.x, both.y, floats(sum)};
    }

    __device__ __forceinline__ static float2 floats(const MessagePair& words) {
        const uint2 two = words.data();
        return {__uint_as_float(two.x), __uint_as_float(two.y)};
    }

    __device__ __forceinline__ void write(uint32_t head, uint32_t element, const Merged& merged) const {
        const uint32_t at = (part.head * a.group + head) * kHeadDim + element;
        const uint32_t pair = pack_bf16(__fdividef(merged.sum.x, merged.total), __fdividef(merged.sum.y, merged.total));
        if (messages.to_results) messages.send_results(part.token, at, pair);
        *reinterpret_cast<uint32_t*>(a.out + static_cast<size_t>(part.token) * a.out_stride + at) = pair;
    }
};
