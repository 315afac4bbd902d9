// The norm-factor warp: computes the deferred RMS scales of a stage's rows while the other warps multiply.
#pragma once
#include "../common/reduce.cuh"
#include "messages.cuh"

struct NormFactorWarp {
    // Double-buffered by norm.
    Barrier* ready;
    float (*values)[kMostRows];
    // See `GroupShare::inverse`.
    const uint32_t inverse;
    const uint32_t lane = threadIdx.x % 32;

    __device__ void run(const MegakernelParams& p, const Stage* stages, uint32_t epoch) {
        uint32_t norms = 0;
#pragma unroll 1
        for (uint32_t i = 0; i < p.count; ++i) {
            const Stage& stage = stages[i];
            if (!has_factors(stage, GroupShare(stage.groups, inverse))) continue;
            compute(stage.linear, Messages(p, i, epoch), values[norms % 2]);
            __syncwarp();
            if (lane == 0) ready[norms % 2].arrive();
            ++norms;
        }
    }

    // True when a block with this share needs norm factors for the stage.
    __device__ __forceinline__ static bool has_factors(const Stage& stage, const GroupShare& share) {
        return stage.kind != StageKind::kAttend && stage.linear.squares && !share.is_empty();
    }

private:
    __device__ void compute(const EpilogueParams& p, const Messages& messages, float* to) const {
        const uint32_t parts = p.parts, rows = p.rows;
        const float width = p.width, eps = p.eps, *squares = p.squares;
#pragma unroll 1
        for (uint32_t row = 0; row < rows; ++row) {
            float sum = 0.0f;
            if (messages.from_squares) {
                const uint64_t* from = messages.from_squares + row * kSquareWords + 2 * lane;
                // Lanes take pairs of partial sums, round robin.
                const uint32_t turns = (parts + 63 - 2 * lane) / 64;
                receive<4, 64>(from, turns, (parts + 63) / 64, messages.from_epoch, [&](uint32_t turn, uint2 two) {
                    const bool both = turn * 64 + 2 * lane + 1 < parts;
                    sum += __uint_as_float(two.x) + (both ? __uint_as_float(two.y) : 0.0f);
                });
            } else {
                // Same order as for messages, so that sums are equal bit for bit.
                const float* from = squares + row * parts;
#pragma unroll 1
                for (uint32_t part = 2 * lane; part < parts; part += 64) {
                    sum += __ldcg(from + part) + (part + 1 < parts ? __ldcg(from + part + 1) : 0.0f);
                }
            }
            __syncwarp();
            sum = warp_sum(sum);
            if (lane == 0) to[row] = rsqrtf(sum / width + eps);
        }
    }
};
