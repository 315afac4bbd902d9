// Merges results of chunks into a row's result.
//
// Always in a fixed order by the same instructions, so that results do not depend on how many blocks share a row.
#pragma once
#include "../common/approximate.cuh"
#include "stream.cuh"

// A running softmax as a lane holds it: columns 2 · (lane % 4) and the next one of each group, rows of each of the warp's
// MMA steps.
template <int kMine, int kGroups>
struct Result {
    float max[kGroups][2];
    float total[kGroups][2];
    float sum[kMine][kGroups][4];

    __device__ void clear() { keep(false); }

    // As it is, or cleared.
    __device__ void keep(bool as_it_is) {
#pragma unroll
        for (int group = 0; group < kGroups; ++group) {
#pragma unroll
            for (int i = 0; i < 2; ++i) {
                max[group][i] = as_it_is ? max[group][i] : kLowest;
                total[group][i] = as_it_is ? total[group][i] : 0.0f;
            }
#pragma unroll
            for (int mine = 0; mine < kMine; ++mine) {
#pragma unroll
                for (int i = 0; i < 4; ++i) sum[mine][group][i] = as_it_is ? sum[mine][group][i] : 0.0f;
            }
        }
    }

    __device__ void add(const Result& other) {
#pragma unroll
        for (int group = 0; group < kGroups; ++group) {
            float kept[2], added[2];
#pragma unroll
            for (int i = 0; i < 2; ++i) {
                const float larger = fmaxf(max[group][i], other.max[group][i]);
                kept[i] = power_of_two(max[group][i] - larger);
                added[i] = power_of_two(other.max[group][i] - larger);
                max[group][i] = larger;
                total[group][i] = __fmaf_rn(total[group][i], kept[i], __fmul_rn(other.total[group][i], added[i]));
            }
#pragma unroll
            for (int mine = 0; mine < kMine; ++mine) {
#pragma unroll
                for (int i = 0; i < 4; ++i) {
                    sum[mine][group][i] =
                        __fmaf_rn(sum[mine][group][i], kept[i % 2], __fmul_rn(other.sum[mine][group][i], added[i % 2]));
                }
            }
        }
    }

    // Attention sinks, a weight without a value: `sinks` are those of this lane's columns.
    __device__ void add_sinks(const float (&sinks)[kGroups][2]) {
        Result other;
        other.clear();
#pragma unroll
        for (int group = 0; group < kGroups; ++group) {
#pragma unroll
            for (int i = 0; i < 2; ++i) {
                other.max[group][i] = sinks[group][i] * kLog2E;
                other.total[group][i] = 1.0f;
            }
        }
        add(other);
    }
};

// Results of chunks in device memory, for rows that several blocks share; `slot` names the row.
template <int kDim, int kColumns, int kMine>
struct StreamPartials {
    static constexpr int kGroups = kColumns / kGroupColumns;
    float4* sums;
    float4* scales;

    __device__ StreamPartials(const AttendParams& p, uint32_t slot, uint32_t head) {
        const size_t first = (static_cast<size_t>(slot) * p.kv_heads + head) * p.most_chunks;
        sums = reinterpret_cast<float4*>(p.partial_sums + first * kColumns * kDim);
        scales = reinterpret_cast<float4*>(p.partial_scales + first * kColumns * 2);
    }

    __device__ static size_t sum_place(uint32_t chunk, int mine, int group) {
        constexpr uint32_t kLanes = kColumns * kDim / 4 / (kMine * kGroups);
        return (chunk * kMine * kGroups + mine * kGroups + group) * static_cast<size_t>(kLanes) + threadIdx.x;
    }
    __device__ static size_t scale_place(uint32_t chunk, int group) {
        return chunk * kGroups * 4 + group * 4 + threadIdx.x % 4;
    }

    // Warps without elements of their own have nothing to merge.
    __device__ static bool has_elements() { return threadIdx.x < kColumns * kDim / 4 / (kMine * kGroups); }

    __device__ void store(uint32_t chunk, const Result<kMine, kGroups>& result) const {
        if (!has_elements()) return;
#pragma unroll
        for (int group = 0; group < kGroups; ++group) {
            if (threadIdx.x < 4) {
                __stcg(scales + scale_place(chunk, group), make_float4(result.max[group][0], result.max[group][1],
                                                                       result.total[group][0], result.total[group][1]));
            }
#pragma unroll
            for (int mine = 0; mine < kMine; ++mine) {
                const float(&sum)[4] = result.sum[mine][group];
                __stcg(sums + sum_place(chunk, mine, group), make_float4(sum[0], sum[1], sum[2], sum[3]));
            }
        }
    }

    // Merges all chunks of a row, as many at a time as fit into `room`. The first ones were merged already and lie in the first
    // one's place. Every thread uses what it copied itself.
    template <uint32_t kRoom>
    __device__ void add_up(uint32_t chunks, uint32_t added, uint8_t* room, Result<kMine, kGroups>& result) const {
        constexpr uint32_t kVectors = kGroups * (kMine + 1), kAtOnce = kRoom / (kVectors * kComputing * 16);
        result.clear();
        if (!has_elements()) return;
        float4* place = reinterpret_cast<float4*>(room) + threadIdx.x;
        const uint32_t parts = chunks - added + 1;
#pragma unroll 1
        for (uint32_t first = 0; first < parts; first += kAtOnce) {
            const uint32_t count = min(kAtOnce, parts - first);
#pragma unroll 1
            for (uint32_t i = 0; i < count; ++i) {
                const uint32_t chunk = first + i == 0 ? 0 : added + first + i - 1;
                float4* to = place + i * kVectors * kComputing;
#pragma unroll
                for (int group = 0; group < kGroups; ++group) {
                    cp_async16(shared_address(to + group * kComputing), scales + scale_place(chunk, group));
#pragma unroll
                    for (int mine = 0; mine < kMine; ++mine) {
                        cp_async16(shared_address(to + (kGroups + mine * kGroups + group) * kComputing),
                               sums + sum_place(chunk, mine, group));
                    }
                }
            }
            cp_async_commit();
            cp_async_wait<0>();
#pragma unroll 1
            for (uint32_t i = 0; i < count; ++i) result.add(load(place + i * kVectors * kComputing));
        }
    }

private:
    __device__ static Result<kMine, kGroups> load(const float4* from) {
        Result<kMine, kGroups> result;
#pragma unroll
        for (int group = 0; group < kGroups; ++group) {
            const float4 scale = from[group * kComputing];
            result.max[group][0] = scale.x;
            result.max[group][1] = scale.y;
            result.total[group][0] = scale.z;
            result.total[group][1] = scale.w;
#pragma unroll
            for (int mine = 0; mine < kMine; ++mine) {
                const float4 sum = from[(kGroups + mine * kGroups + group) * kComputing];
                result.sum[mine][group][0] = sum.x;
                result.sum[mine][group][1] = sum.y;
                result.sum[mine][group][2] = sum.z;
                result.sum[mine][group][3] = sum.w;
            }
        }
        return result;
    }
};
