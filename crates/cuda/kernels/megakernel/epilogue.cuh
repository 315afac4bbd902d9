// Epilogue of sixteen outputs of one or two rows: store, gated activation, or residual add with the next norm.
//
// MMA columns repeat the rows of x, so four neighbouring lanes hold the same four sums (two rows, two outputs eight apart)
// and each finishes one. The code is short on purpose: it runs once per group, and loading instructions costs more than
// running them.
#pragma once
#include "../common/activate.cuh"
#include "messages.cuh"

// Norm factors of the rows (deferred RMS scale), computed by the norm-factor warp meanwhile.
struct NormFactors {
    Barrier* ready;
    const float* values;
    uint32_t parity;

    __device__ __forceinline__ void wait() const { ready->wait(parity); }
};

struct StageEpilogue {
    const Stage& stage;
    const Messages& messages;
    const NormFactors& factors;
    const uint32_t lane = threadIdx.x % 32;
    const uint32_t row = lane % 2;
    // The second of two outputs: the up value of a gate, or the output eight further.
    const bool second = lane & 2;
    // Raw bf16 bits: converting would wait for the load.
    uint32_t bias = 0;
    uint32_t before = 0;
    float weight = 1.0f;

    __device__ __forceinline__ StageEpilogue(const Stage& which, const Messages& sent, const NormFactors& norm_factors)
        : stage(which), messages(sent), factors(norm_factors) {}

    // Loads bias, residual and norm weight of a group long before its sums are there.
    __device__ __forceinline__ void prepare(uint32_t group) {
        const EpilogueParams& p = stage.linear;
        const Place place(stage.kind, p, lane, group);
        if (!place.there) return;
        if (p.bias) bias = bits(p.bias + place.at + (second && place.gated ? place.width : 0));
        if (stage.kind != StageKind::kAddNorm) return;
        before = bits(residual(p, place.at));
        weight = __ldg(p.norm + place.at);
    }

    // Finishes the group, of which this lane has one sum.
    __device__ __forceinline__ void run(uint32_t group, float sum) const {
        // All parameters are read before anything is waited for.
        const EpilogueParams p = stage.linear;
        const StageKind kind = stage.kind;
        const Place place(kind, p, lane, group);
        if (p.squares) {
            factors.wait();
            sum = __fmul_rn(sum, factors.values[row]);
        }
        float result = place.there ? sum + (__uint_as_float(bias << 16) + __uint_as_float(before << 16)) : 0.0f;
        const float other = __shfl_xor_sync(kAllLanes, result, 2);
        if (place.gated) result = activate(result, p.gelu) * other;
        if (kind == StageKind::kAddNorm) {
            send_squares(p, group, second ? other : result, second ? result : other);
            if (place.there) *residual(p, place.at) = __float2bfloat16(result);
            result *= weight;
        }
        // Neighbouring outputs are four lanes apart.
        const float neighbour = __shfl_down_sync(kAllLanes, result, 4);
        if (!place.there || second && place.gated) return;
        if (messages.to_results && lane / 4 % 2 == 0) messages.send_results(row, place.at, pack_bf16(result, neighbour));
        const size_t at = static_cast<size_t>(row) * p.out_stride + place.at;
        if (p.wide) {
            static_cast<float*>(p.out)[at] = result;
        } else {
            static_cast<bf16*>(p.out)[at] = __float2bfloat16(result);
        }
    }

private:
    // Which result this lane has. Computed twice, since keeping it would cost registers.
    struct Place {
        bool gated;
        uint32_t width;
        uint32_t at;
        bool there;

        __device__ __forceinline__ Place(StageKind kind, const EpilogueParams& p, uint32_t lane, uint32_t group) {
            gated = kind == StageKind::kGated;
            width = gated ? p.outputs / 2 : p.outputs;
            at = group * (gated ? kOutputs / 2 : kOutputs) + lane / 4 + (lane & 2 && !gated ? kOutputs / 2 : 0);
            there = lane % 2 < p.rows && at < width;
        }
    };

    __device__ __forceinline__ static uint32_t bits(const bf16* number) { return *reinterpret_cast<const uint16_t*>(number); }

    __device__ __forceinline__ bf16* residual(const EpilogueParams& p, uint32_t at) const {
        return p.residual + static_cast<size_t>(row) * p.residual_stride + at;
    }

    // Over all sixteen outputs, of which a lane has two.
    __device__ __forceinline__ void send_squares(const EpilogueParams& p, uint32_t group, float low, float high) const {
        float squares = low * low + high * high;
#pragma unroll
        for (int offset = 4; offset < 32; offset *= 2) squares += __shfl_xor_sync(kAllLanes, squares, offset);
        if (lane >= p.rows) return;
        if (messages.to_squares) send(messages.to_squares + row * kSquareWords + group, __float_as_uint(squares), messages.to_epoch);
        p.next_squares[row * p.next_parts + group] = squares;
    }
};
