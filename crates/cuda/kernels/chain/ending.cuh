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
    const LinearSurroundings& p;
    const ChainMail& mail;
    const LateFactors& factors;
    const uint32_t lane = threadIdx.x % 32;
    const uint32_t row = lane % 2;
    // The second of two outputs: a gate's factor, or eight further.
    const bool second = lane % 4 / 2;
    const bool gated;
    const bool onward;
    // Of results.
    const uint32_t width;
    const uint32_t at;
    const bool there;
    float addend = 0.0f;
    float weight = 1.0f;

    // Asks for what is to be added, which is on its way while sums are.
    __device__ __forceinline__ ChainEnding(const ChainLink& which, const ChainMail& post, const LateFactors& late, uint32_t group)
        : link(which),
          p(which.linear),
          mail(post),
          factors(late),
          gated(which.kind == LinkKind::kGated),
          onward(which.kind == LinkKind::kOnward),
          width(gated ? p.outputs / 2 : p.outputs),
          at(group * (gated ? kOutputs / 2 : kOutputs) + lane / 4 + (second && !gated ? kOutputs / 2 : 0)),
          there(row < p.rows && at < width) {
        if (!there) return;
        if (p.bias) addend = __bfloat162float(p.bias[at + (second && gated ? width : 0)]);
        if (!onward) return;
        addend += __bfloat162float(*residual());
        weight = __ldg(p.norm + at);
    }

    // Of the number of the group, and of this lane's sum.
    __device__ __forceinline__ void run(uint32_t group, float sum) const {
        if (p.squares) {
            factors.wait();
            sum = __fmul_rn(sum, factors.values[row]);
        }
        float result = there ? sum + addend : 0.0f;
        const float other = __shfl_xor_sync(kAllLanes, result, 2);
        if (gated) result = activate(result, p.gelu) * other;
        if (onward) {
            tell_squares(group, second ? other : result, second ? result : other);
            if (there) *residual() = __float2bfloat16(result);
            result *= weight;
        }
        // Pairs of neighbours are four lanes apart.
        const float neighbour = __shfl_down_sync(kAllLanes, result, 4);
        if (!there || second && gated) return;
        if (mail.to_results && lane / 4 % 2 == 0) mail.send_results(row, at, pack_bf16(result, neighbour));
        const size_t place = static_cast<size_t>(row) * p.out_stride + at;
        if (p.wide) {
            static_cast<float*>(p.out)[place] = result;
        } else {
            static_cast<bf16*>(p.out)[place] = __float2bfloat16(result);
        }
    }

private:
    __device__ __forceinline__ bf16* residual() const { return p.residual + static_cast<size_t>(row) * p.residual_stride + at; }

    // Of all sixteen outputs, of which a lane knows two.
    __device__ __forceinline__ void tell_squares(uint32_t group, float low, float high) const {
        float squares = low * low + high * high;
#pragma unroll
        for (int offset = 4; offset < 32; offset *= 2) squares += __shfl_xor_sync(kAllLanes, squares, offset);
        if (lane >= p.rows) return;
        if (mail.to_squares) send(mail.to_squares + row * kSquareWords + group, __float_as_uint(squares), mail.to_age);
        p.next_squares[row * p.next_parts + group] = squares;
    }
};
