// Sixteen positions of one key head in shared memory, and a warp's products with them.
//
// Scores are computed as K·Qᵀ and results as Vᵀ·Pᵀ: positions and then elements take the sixteen rows of a product,
// the columns (query heads of the group, times new tokens) its eight. An odd number of columns wastes little that way.
#pragma once
#include "../common/copy.cuh"
#include "../common/approximate.cuh"
#include "../common/mma.cuh"
#include "params.cuh"

constexpr uint32_t kAllLanes = 0xffffffffu;
constexpr int kTile = 16;
// In place of a slot: nothing to see there.
constexpr uint32_t kNoSlot = 0xffffffffu;

template <int kDim, typename Kv>
struct SplitTile {
    static constexpr int kElement = sizeof(Kv);
    static constexpr int kRowBytes = kDim * kElement;
    static constexpr int kPieces = kRowBytes / 16;
    static constexpr int kBytes = kTile * kRowBytes;
    static constexpr bool kNarrow = kElement == 1;

    // Where a 16-byte piece of a row lies, so that eight rows of one piece lie in eight different places of the banks.
    __device__ static uint32_t place(uint32_t row, uint32_t piece) {
        const uint32_t turned = kPieces >= 8 ? piece ^ (row & 7) : piece ^ ((row >> 1) & 3);
        return row * kRowBytes + turned * 16;
    }

    // Starts the copies of keys and values; lane l knows the slot of position l % 16.
    __device__ static void load(const AttendParams& p, uint8_t* stage, uint32_t slot, uint32_t head) {
        const uint32_t lane = threadIdx.x % 32, head_bytes = p.head_dim * kElement;
        const uint8_t* keys = static_cast<const uint8_t*>(p.keys) + head * head_bytes;
        const uint8_t* values = static_cast<const uint8_t*>(p.values) + head * head_bytes;
        const size_t slot_bytes = static_cast<size_t>(p.kv_heads) * head_bytes;
        const size_t odd = head_bytes | reinterpret_cast<size_t>(p.keys) | reinterpret_cast<size_t>(p.values);
        if (odd % 16 != 0) {
            load_elements(p, stage, slot, keys, values);
            return;
        }
        constexpr int kRows = 32 / kPieces;
        const uint32_t piece = lane % kPieces, to = shared_address(stage);
#pragma unroll
        for (int first = 0; first < kTile; first += kRows) {
            const uint32_t row = first + lane / kPieces;
            const uint32_t from = __shfl_sync(kAllLanes, slot, row);
            const bool seen = from != kNoSlot;
            const size_t offset = (seen ? from * slot_bytes : 0) + piece * 16;
            if (piece * 16 < head_bytes) {
                copy16(to + place(row, piece), keys + offset, seen);
                copy16(to + kBytes + place(row, piece), values + offset, seen);
            }
        }
    }

    // Heads whose rows are not made of 16-byte pieces.
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
            multiply_f16(sum, a, b0, b1);
        } else {
            multiply_bf16(sum, a, b0, b1);
        }
    }

    // scores += K·Qᵀ: rows are positions.
    template <int kGroups>
    __device__ static void score(uint32_t keys, const uint32_t (&query)[kGroups][kDim / 16][2], float (&scores)[kGroups][4]) {
        const uint32_t lane = threadIdx.x % 32, row = lane % 8 + (lane / 8 % 2) * 8;
        if constexpr (kNarrow) {
#pragma unroll
            for (int step = 0; step < kDim / 16; step += 2) {
                uint32_t bytes[4];
                load_matrices(bytes, keys + place(row, step + lane / 16));
#pragma unroll
                for (int half = 0; half < 2; ++half) {
                    const uint32_t a[4] = {widen_fp8(bytes[2 * half]), widen_fp8(bytes[2 * half + 1]),
                                           widen_fp8(bytes[2 * half] >> 16), widen_fp8(bytes[2 * half + 1] >> 16)};
#pragma unroll
                    for (int group = 0; group < kGroups; ++group) {
                        multiply(scores[group], a, query[group][step + half][0], query[group][step + half][1]);
                    }
                }
            }
        } else {
#pragma unroll
            for (int step = 0; step < kDim / 16; ++step) {
                uint32_t a[4];
                load_matrices(a, keys + place(row, 2 * step + lane / 16));
#pragma unroll
                for (int group = 0; group < kGroups; ++group) {
                    multiply(scores[group], a, query[group][step][0], query[group][step][1]);
                }
            }
        }
    }

    // sums += Vᵀ·Pᵀ: rows are elements; row r of step k is element `element(k, r)`.
    template <int kGroups>
    __device__ static void mix(uint32_t values, const uint32_t (&weights)[kGroups][2], float (&sums)[kDim / 16][kGroups][4]) {
        const uint32_t lane = threadIdx.x % 32, position = lane % 8 + lane / 16 * 8, odd = lane / 8 % 2;
        if constexpr (kNarrow) {
#pragma unroll
            for (int step = 0; step < kDim / 16; step += 2) {
                // Matrices: positions 0–7 and 8–15 of one piece, then of the next.
                const uint32_t row = lane % 8 + odd * 8;
                uint32_t bytes[4];
                load_matrices_transposed(bytes, values + place(row, step + lane / 16));
#pragma unroll
                for (int half = 0; half < 2; ++half) {
                    const uint32_t early = bytes[2 * half], late = bytes[2 * half + 1];
                    const uint32_t a[4] = {widen_fp8(__byte_perm(early, 0, 0x4420)), widen_fp8(__byte_perm(early, 0, 0x4431)),
                                           widen_fp8(__byte_perm(late, 0, 0x4420)), widen_fp8(__byte_perm(late, 0, 0x4431))};
#pragma unroll
                    for (int group = 0; group < kGroups; ++group) {
                        multiply(sums[step + half][group], a, weights[group][0], weights[group][1]);
                    }
                }
            }
        } else {
#pragma unroll
            for (int step = 0; step < kDim / 16; ++step) {
                uint32_t a[4];
                load_matrices_transposed(a, values + place(position, 2 * step + odd));
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
