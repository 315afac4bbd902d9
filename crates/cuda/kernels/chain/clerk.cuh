// The warp that finds factors of late norms while others multiply.
#pragma once
#include "../common/reduce.cuh"
#include "mail.cuh"

struct ChainClerk {
    // Of two norms in turn.
    Barrier* found;
    float (*values)[kMostRows];
    // Of the number of blocks.
    const uint32_t inverse;
    const uint32_t lane = threadIdx.x % 32;

    __device__ void run(const ChainParams& p, const ChainLink* links, uint32_t age) {
        uint32_t norms = 0;
#pragma unroll 1
        for (uint32_t i = 0; i < p.count; ++i) {
            const ChainLink& link = links[i];
            if (!has_factors(link, GroupShare(link.groups, inverse))) continue;
            find(link.linear, ChainMail(p, i, age), values[norms % 2]);
            __syncwarp();
            if (lane == 0) found[norms % 2].arrive();
            ++norms;
        }
    }

    // True when a block with this share needs some for the link.
    __device__ __forceinline__ static bool has_factors(const ChainLink& link, const GroupShare& share) {
        return link.kind != LinkKind::kAttend && link.linear.squares && !share.is_empty();
    }

private:
    __device__ void find(const LinearSurroundings& p, const ChainMail& mail, float* to) const {
        const uint32_t parts = p.parts, rows = p.rows;
        const float width = p.width, eps = p.eps, *squares = p.squares;
#pragma unroll 1
        for (uint32_t row = 0; row < rows; ++row) {
            float sum = 0.0f;
            if (mail.from_squares) {
                const uint64_t* from = mail.from_squares + row * kSquareWords + 2 * lane;
                // Two parts in turn for every lane.
                const uint32_t turns = (parts + 63 - 2 * lane) / 64;
                receive<4, 64>(from, turns, (parts + 63) / 64, mail.from_age, [&](uint32_t turn, uint2 two) {
                    const bool both = turn * 64 + 2 * lane + 1 < parts;
                    sum += __uint_as_float(two.x) + (both ? __uint_as_float(two.y) : 0.0f);
                });
            } else {
                // In the order of mail, so that the sum is the same.
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
