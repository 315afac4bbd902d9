// What becomes of the sums of sixteen outputs of one or two rows: results, gated results, or the end of a layer.
//
// Columns of products are rows in turn, so four neighbouring lanes have the same four sums, of two rows and two outputs eight
// apart, and each of them ends one: little code is run once a group, and what is short is fetched sooner than it is run.
#pragma once
#include "../common/activate.cuh"
#include "mail.cuh"

// Factors of a late norm, which the clerk finds meanwhile.
struct LateFactors {
    Barrier* found;
    const float* values;
    uint32_t parity;

    __device__ __forceinline__ void wait() const { found->wait(parity); }
};

struct ChainEnding {
    const ChainLink& link;
    const ChainMail& mail;
    const LateFactors& factors;
    const uint32_t lane = threadIdx.x % 32;
    const uint32_t row = lane % 2;
    // The second of two outputs: a gate's factor, or eight further.
    const bool second = lane & 2;
    // Bits of bf16: a number would have to be there at once.
    uint32_t bias = 0;
    uint32_t before = 0;
    float weight = 1.0f;

    __device__ __forceinline__ ChainEnding(const ChainLink& which, const ChainMail& post, const LateFactors& late)
        : link(which), mail(post), factors(late) {}

    // Asks for what is to be added to a group's sums, long before there are any.
    __device__ __forceinline__ void prepare(uint32_t group) {
        const LinearSurroundings& p = link.linear;
        const Place place(link.kind, p, lane, group);
        if (!place.there) return;
        if (p.bias) bias = bits(p.bias + place.at + (second && place.gated ? place.width : 0));
        if (link.kind != LinkKind::kOnward) return;
        before = bits(residual(p, place.at));
        weight = __ldg(p.norm + place.at);
    }

    // Ends the group, of which this lane has a sum.
    __device__ __forceinline__ void run(uint32_t group, float sum) const {
        // All words at once, before anything is waited for.
        const LinearSurroundings p = link.linear;
        const LinkKind kind = link.kind;
        const Place place(kind, p, lane, group);
        if (p.squares) {
            factors.wait();
            sum = __fmul_rn(sum, factors.values[row]);
        }
        float result = place.there ? sum + (__uint_as_float(bias << 16) + __uint_as_float(before << 16)) : 0.0f;
        const float other = __shfl_xor_sync(kAllLanes, result, 2);
        if (place.gated) result = activate(result, p.gelu) * other;
        if (kind == LinkKind::kOnward) {
            tell_squares(p, group, second ? other : result, second ? result : other);
            if (place.there) *residual(p, place.at) = __float2bfloat16(result);
            result *= weight;
        }
        // Pairs of neighbours are four lanes apart.
        const float neighbour = __shfl_down_sync(kAllLanes, result, 4);
        if (!place.there || second && place.gated) return;
        if (mail.to_results && lane / 4 % 2 == 0) mail.send_results(row, place.at, pack_bf16(result, neighbour));
        const size_t at = static_cast<size_t>(row) * p.out_stride + place.at;
        if (p.wide) {
            static_cast<float*>(p.out)[at] = result;
        } else {
            static_cast<bf16*>(p.out)[at] = __float2bfloat16(result);
        }
    }

private:
    // Which of the results is this lane's, found twice: from one time to the other it would take registers.
    struct Place {
        bool gated;
        uint32_t width;
        uint32_t at;
        bool there;

        __device__ __forceinline__ Place(LinkKind kind, const LinearSurroundings& p, uint32_t lane, uint32_t group) {
            gated = kind == LinkKind::kGated;
            width = gated ? p.outputs / 2 : p.outputs;
            at = group * (gated ? kOutputs / 2 : kOutputs) + lane / 4 + (lane & 2 && !gated ? kOutputs / 2 : 0);
            there = lane % 2 < p.rows && at < width;
        }
    };

    __device__ __forceinline__ static uint32_t bits(const bf16* number) { return *reinterpret_cast<const uint16_t*>(number); }

    __device__ __forceinline__ bf16* residual(const LinearSurroundings& p, uint32_t at) const {
        return p.residual + static_cast<size_t>(row) * p.residual_stride + at;
    }

    // Of all sixteen outputs, of which a lane knows two.
    __device__ __forceinline__ void tell_squares(const LinearSurroundings& p, uint32_t group, float low, float high) const {
        float squares = low * low + high * high;
#pragma unroll
        for (int offset = 4; offset < 32; offset *= 2) squares += __shfl_xor_sync(kAllLanes, squares, offset);
        if (lane >= p.rows) return;
        if (mail.to_squares) send(mail.to_squares + row * kSquareWords + group, __float_as_uint(squares), mail.to_age);
        p.next_squares[row * p.next_parts + group] = squares;
    }
};
