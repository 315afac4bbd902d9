// Sixteen positions of one KV head in shared memory, and a warp's MMAs with them.
//
// Scores are K·Qᵀ and results Vᵀ·Pᵀ: positions, then elements, are M of the MMA; columns (query heads of the group times new
// tokens) are N = 8, so an odd number of columns wastes little.
#pragma once
#include "../common/copy.cuh"
#include "../common/approximate.cuh"
#include "../common/mma.cuh"
#include "params.cuh"

constexpr uint32_t kAllLanes = 0xffffffffu;
constexpr int kTile = 16;
// Stands for a slot: nothing visible there.
constexpr uint32_t kNoSlot = 0xffffffffu;

template <int kDim, typename Kv>
struct SplitTile {
    static constexpr int kElement = sizeof(Kv);
    static constexpr int kRowBytes = kDim * kElement;
    static constexpr int kVectors = kRowBytes / 16;
    static constexpr int kBytes = kTile * kRowBytes;
    static constexpr bool kNarrow = kElement == 1;

    // Swizzled offset of a 16-byte vector: the same vector of eight rows lies in eight different banks.
    __device__ static uint32_t place(uint32_t row, uint32_t vector) {
        const uint32_t turned = kVectors >= 8 ? vector ^ (row & 7) : vector ^ ((row >> 1) & 3);
        return row * kRowBytes + turned * 16;
    }

    // Rows that a warp copies at once.
    static constexpr int kRows = 32 / kVectors;

    // As `place`, for row `first + lane / kVectors` and vector `lane % kVectors`; `first` is a compile-time constant.
    __device__ static uint32_t place_of_lane(uint32_t first) {
        const uint32_t lane = threadIdx.x % 32, row = lane / kVectors, vector = lane % kVectors;
        const uint32_t turned = kVectors >= 8 ? (vector ^ row) ^ (first & 7) : vector ^ ((row >> 1) & 3);
        return (first + row) * kRowBytes + turned * 16;
    }

    // Starts the copies of sixteen consecutive slots, of which [begin, end) are visible.
    __device__ static void load_run(const AttendParams& p, uint8_t* stage, uint32_t slot, uint32_t head, uint32_t begin,
                                    uint32_t end) {
        const uint32_t lane = threadIdx.x % 32, head_bytes = p.head_dim * kElement;
        const uint32_t slot_bytes = p.kv_heads * head_bytes, row = lane / kVectors, vector = lane % kVectors;
        if (vector * 16 >= head_bytes) return;
        const size_t offset = static_cast<size_t>(slot) * slot_bytes + row * slot_bytes + head * head_bytes + vector * 16;
        const uint8_t* keys = static_cast<const uint8_t*>(p.keys) + offset;
        const uint8_t* values = static_cast<const uint8_t*>(p.values) + offset;
        const uint32_t to = shared_address(stage);
        if (begin == 0 && end == kTile) {
#pragma unroll
            for (int first = 0; first < kTile; first += kRows) {
                cp_async16(to + place_of_lane(first), keys);
                cp_async16(to + kBytes + place_of_lane(first), values);
                keys += kRows * slot_bytes;
                values += kRows * slot_bytes;
            }
            return;
        }
#pragma unroll
        for (int first = 0; first < kTile; first += kRows) {
            const bool seen = first + row >= begin && first + row < end;
            cp_async16(to + place_of_lane(first), seen ? keys : p.keys, seen);
            cp_async16(to + kBytes + place_of_lane(first), seen ? values : p.values, seen);
            keys += kRows * slot_bytes;
            values += kRows * slot_bytes;
        }
    }

    // Starts the copies of sixteen arbitrary slots; lane l has that of position l % 16. Rare, so kept out of the loop's code.
    __device__ __noinline__ static void load_slots(const AttendParams& p, uint8_t* stage, uint32_t slot, uint32_t head) {
        const uint32_t lane = threadIdx.x % 32, head_bytes = p.head_dim * kElement;
        const uint8_t* keys = static_cast<const uint8_t*>(p.keys) + head * head_bytes;
        const uint8_t* values = static_cast<const uint8_t*>(p.values) + head * head_bytes;
        const size_t slot_bytes = static_cast<size_t>(p.kv_heads) * head_bytes;
        if (!is_even(p)) {
            load_elements(p, stage, slot, keys, values);
            return;
        }
        const uint32_t vector = lane % kVectors, to = shared_address(stage);
#pragma unroll
        for (int first = 0; first < kTile; first += kRows) {
            const uint32_t from = __shfl_sync(kAllLanes, slot, first + lane / kVectors);
            const bool seen = from != kNoSlot;
            const size_t offset = (seen ? from * slot_bytes : 0) + vector * 16;
            if (vector * 16 < head_bytes) {
                cp_async16(to + place_of_lane(first), keys + offset, seen);
                cp_async16(to + kBytes + place_of_lane(first), values + offset, seen);
            }
        }
    }

    // True when heads are 16-byte aligned.
    __device__ static bool is_even(const AttendParams& p) {
        const size_t bits = p.head_dim * kElement | reinterpret_cast<size_t>(p.keys) | reinterpret_cast<size_t>(p.values);
        return bits % 16 == 0;
    }

    // Heads whose rows are not 16-byte aligned.
    __device__ static void load_elements(const AttendParams& p, uint8_t* stage, uint32_t slot, const uint8_t* keys,
                                         const uint8_t* values) {
        for (uint32_t row = 0; row < kTile; ++row) {
            const uint32_t from = __shfl_sync(kAllLanes, slot, row);
            const size_t offset = (from == kNoSlot ? 0 : static_cast<size_t>(from)) * p.kv_heads * p.head_dim;
            for (uint32_t i = threadIdx.x % 32; i < p.head_dim; i += 32) {
                const uint32_t at = i * kElement, to = place(row, at / 16) + at % 16;
                Kv key{}, value{};
                if (from != kNoSlot) {
                    key = reinterpret_cast<const Kv*>(keys)[offset + i];
                    value = reinterpret_cast<const Kv*>(values)[offset + i];
                }
                *reinterpret_cast<Kv*>(stage + to) = key;
                *reinterpret_cast<Kv*>(stage + kBytes + to) = value;
            }
        }
    }

    // The elements of a query that lane l multiplies in step k: two pairs, in the order in which `keys` yields them.
    __device__ static uint32_t query_element(uint32_t step, uint32_t pair) {
        const uint32_t lane = threadIdx.x % 4;
        return kNarrow ? step * 16 + lane * 4 + pair * 2 : step * 16 + lane * 2 + pair * 8;
    }

    __device__ static uint32_t pack(float low, float high) { return kNarrow ? pack_f16(low, high) : pack_bf16(low, high); }

    __device__ static void multiply(float (&sum)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
        if constexpr (kNarrow) {
            mma_f16(sum, a, b0, b1);
        } else {
            mma_bf16(sum, a, b0, b1);
        }
    }

    // scores = K·Qᵀ: rows are positions. Four accumulators in turn, so that no MMA waits for the previous one.
    template <int kGroups>
    __device__ static void score(uint32_t keys, const uint32_t (&query)[kGroups][kDim / 16][2], float (&scores)[kGroups][4]) {
        constexpr int kSums = kGroups == 1 ? 4 : 2;
        const uint32_t lane = threadIdx.x % 32, row = lane % 8 + (lane / 8 % 2) * 8;
        const uint32_t first = place(row, lane / 16);
        float sums[kSums][kGroups][4] = {};
        const auto add = [&](int step, const uint32_t (&a)[4]) {
#pragma unroll
            for (int group = 0; group < kGroups; ++group) {
                multiply(sums[step % kSums][group], a, query[group][step][0], query[group][step][1]);
            }
        };
        if constexpr (kNarrow) {
#pragma unroll
            for (int step = 0; step < kDim / 16; step += 2) {
                uint32_t bytes[4];
                ldmatrix(bytes, keys + (first ^ step * 16));
#pragma unroll
                for (int half = 0; half < 2; ++half) {
                    const uint32_t a[4] = {widen_fp8(bytes[2 * half]), widen_fp8(bytes[2 * half + 1]),
                                           widen_fp8(bytes[2 * half] >> 16), widen_fp8(bytes[2 * half + 1] >> 16)};
                    add(step + half, a);
                }
            }
        } else {
#pragma unroll
            for (int step = 0; step < kDim / 16; ++step) {
                uint32_t a[4];
                ldmatrix(a, keys + (first ^ step * 32));
                add(step, a);
            }
        }
#pragma unroll
        for (int group = 0; group < kGroups; ++group) {
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                float sum = sums[0][group][i] + sums[1][group][i];
                if constexpr (kSums == 4) sum += sums[2][group][i] + sums[3][group][i];
                scores[group][i] = sum;
            }
        }
    }

    // sums += Vᵀ·Pᵀ: rows are elements; row r of step k is element `element(k, r)`.
    template <int kGroups>
    __device__ static void mix(uint32_t values, const uint32_t (&weights)[kGroups][2], float (&sums)[kDim / 16][kGroups][4]) {
        const uint32_t lane = threadIdx.x % 32, odd = lane / 8 % 2;
        if constexpr (kNarrow) {
            // Matrices: positions 0–7 and 8–15 of one vector, then of the next.
            const uint32_t first = place(lane % 8 + odd * 8, lane / 16);
#pragma unroll
            for (int step = 0; step < kDim / 16; step += 2) {
                uint32_t bytes[4];
                ldmatrix_trans(bytes, values + (first ^ step * 16));
#pragma unroll
                for (int half = 0; half < 2; ++half) {
                    uint32_t a[4];
                    widen_fp8_pairs(bytes[2 * half], a[0], a[1]);
                    widen_fp8_pairs(bytes[2 * half + 1], a[2], a[3]);
#pragma unroll
                    for (int group = 0; group < kGroups; ++group) {
                        multiply(sums[step + half][group], a, weights[group][0], weights[group][1]);
                    }
                }
            }
        } else {
            const uint32_t first = place(lane % 8 + lane / 16 * 8, odd);
#pragma unroll
            for (int step = 0; step < kDim / 16; ++step) {
                uint32_t a[4];
                ldmatrix_trans(a, values + (first ^ step * 32));
#pragma unroll
                for (int group = 0; group < kGroups; ++group) {
                    multiply(sums[step][group], a, weights[group][0], weights[group][1]);
                }
            }
        }
    }

    __device__ static uint32_t element(uint32_t step, uint32_t row) {
        return kNarrow ? step * 16 + row % 8 * 2 + row / 8 : step * 16 + row;
    }
};
