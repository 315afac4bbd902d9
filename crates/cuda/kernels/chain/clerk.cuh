// The warp that finds factors of late norms while others multiply.
#pragma once
#include "../common/reduce.cuh"
#include "mail.cuh"

struct ChainClerk {
    // Of two norms in turn.
    Barrier* found;
    float (*values)[8];
    const uint32_t lane = threadIdx.x % 32;

    __device__ void run(const ChainParams& p, const ChainLink* links, uint32_t age) {
        uint32_t norms = 0;
#pragma unroll 1
        for (uint32_t i = 0; i < p.count; ++i) {
            const ChainLink& link = links[i];
            if (!has_factors(link)) continue;
            find(link.linear, ChainMail(p, i, age), values[norms % 2]);
            __syncwarp();
            if (lane == 0) found[norms % 2].arrive();
            ++norms;
        }
    }

    // True when this block needs some for the link.
    __device__ __forceinline__ static bool has_factors(const ChainLink& link) {
        if (link.kind == LinkKind::kAttend || !link.linear.squares) return false;
        const GroupShare share(link.groups);
        return share.begin < share.end;
    }

private:
    __device__ void find(const LinearSurroundings& p, const ChainMail& mail, float* to) const {
        const uint32_t parts = p.parts, rows = p.rows;
        const float width = p.width, eps = p.eps, *squares = p.squares;
#pragma unroll 1
        for (uint32_t row = 0; row < rows; ++row) {
            float sum = 0.0f;
            if (mail.from_squares) {
                const uint64_t* from = mail.from_squares + row * kSquareWords;
                receive<4>(
                    lane, (parts + 1) / 2, mail.from_age, [&](uint32_t at) { return from + 2 * at; },
                    [&](uint32_t at, uint2 two) {
                        sum += __uint_as_float(two.x) + (2 * at + 1 < parts ? __uint_as_float(two.y) : 0.0f);
                    });
            } else {
                // In the order of mail, so that the sum is the same.
                const float* from = squares + row * parts;
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
