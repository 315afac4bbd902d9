// Products of few rows with eight-bit floats: out = x · weightᵀ + bias, every code read once, at the speed of memory.
//
// Blocks take equal shares of all tiles of outputs. Codes become bf16 in registers, the first factor of the products, and the
// sums of each segment of inputs are scaled before they are added: nothing is rounded that the bf16 kernel would not round.
#include "common/float8.cuh"
#include "common/order.cuh"
#include "common/room.cuh"
#include "common/wgmma.cuh"
#include "linear/finish.cuh"
#include "linear/shared_tile.cuh"

struct WeightScales {
    Scales scales;
};

struct Float8Params : LinearMaps, WeightScales, LinearSurroundings {};

constexpr int kSlice = 64;

#define OUT4(i) "+f"(sums[i]), "+f"(sums[i + 1]), "+f"(sums[i + 2]), "+f"(sums[i + 3])
#define OUT16(i) OUT4(i), OUT4(i + 4), OUT4(i + 8), OUT4(i + 12)

// sums = a · bᵀ (+ sums), a: sixteen columns in registers, b: kWidth rows along.
template <int kWidth>
__device__ __forceinline__ void multiply_codes(float (&sums)[kWidth / 2], const uint32_t (&a)[4], uint64_t b, bool add);

template <>
__device__ __forceinline__ void multiply_codes<8>(float (&sums)[4], const uint32_t (&a)[4], uint64_t b, bool add) {
    asm volatile(
        "{\n.reg .pred add;\nsetp.ne.b32 add, %9, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%0, %1, %2, %3}, {%4, %5, %6, %7}, %8, add, 1, 1, 0;\n}\n"
        : OUT4(0)
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(static_cast<uint32_t>(add)));
}

template <>
__device__ __forceinline__ void multiply_codes<16>(float (&sums)[8], const uint32_t (&a)[4], uint64_t b, bool add) {
    asm volatile(
        "{\n.reg .pred add;\nsetp.ne.b32 add, %13, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n16k16.f32.bf16.bf16 {%0, %1, %2, %3, %4, %5, %6, %7}, {%8, %9, %10, %11}, %12, "
        "add, 1, 1, 0;\n}\n"
        : OUT4(0), OUT4(4)
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(static_cast<uint32_t>(add)));
}

template <>
__device__ __forceinline__ void multiply_codes<32>(float (&sums)[16], const uint32_t (&a)[4], uint64_t b, bool add) {
    asm volatile(
        "{\n.reg .pred add;\nsetp.ne.b32 add, %21, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n32k16.f32.bf16.bf16 {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, "
        "%14, %15}, {%16, %17, %18, %19}, %20, add, 1, 1, 0;\n}\n"
        : OUT16(0)
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(static_cast<uint32_t>(add)));
}

template <>
__device__ __forceinline__ void multiply_codes<64>(float (&sums)[32], const uint32_t (&a)[4], uint64_t b, bool add) {
    asm volatile(
        "{\n.reg .pred add;\nsetp.ne.b32 add, %37, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, "
        "%14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, {%32, %33, %34, %35}, "
        "%36, add, 1, 1, 0;\n}\n"
        : OUT16(0), OUT16(16)
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(static_cast<uint32_t>(add)));
}

template <int kTokens, int kWarpgroups, Ending kEnding>
struct Stream8 {
    static constexpr bool kGated = kEnding == Ending::kGated;
    static constexpr int kConsumers = 128 * kWarpgroups;
    static constexpr int kThreads = kConsumers + 32;
    static constexpr int kOutputs = 64 * kWarpgroups;
    static constexpr int kWeightBytes = kOutputs * kSegment;
    static constexpr int kBytes = kWeightBytes + kTokens * kSegment * 2;
    static constexpr int kFit = (kHalfRoom - 512) / kBytes;
    static constexpr int kStages = kFit < 12 ? kFit : 12;
    static constexpr int kSums = kTokens / 2;

    using Tile = SharedTile<kOutputs, kTokens, kConsumers>;

    struct Barriers {
        Barrier full[kStages];
        Barrier empty[kStages];
        uint32_t last;
        Factors<kTokens> factors;
    };
    static_assert(kStages * kBytes + sizeof(Barriers) <= kHalfRoom, "fits");

    // The map counts in pairs of codes. Gates and their factors come eight rows of each in turn.
    static __device__ void fetch_weights(const Float8Params& p, uint8_t* to, Barrier* full, const Unit& unit) {
        full->expect(kBytes);
        for (int i = 0; i < kWarpgroups; ++i) {
            uint8_t* place = to + i * 64 * kSegment;
            const uint32_t first = unit.tile * kOutputs + i * 64;
            if constexpr (kGated) {
                copy_box(place, &p.weight, full, unit.stage * (kSegment / 2), 0, 0, first / 16);
            } else {
                copy_box(place, &p.weight, full, unit.stage * (kSegment / 2), first);
            }
        }
    }

    static __device__ void fetch_x(const Float8Params& p, uint8_t* to, Barrier* full, const Unit& unit) {
        for (int slice = 0; slice < static_cast<int>(kSegment) / kSlice; ++slice) {
            copy_box(to + kWeightBytes + slice * kTokens * kSlice * 2, &p.x, full, unit.stage * kSegment + slice * kSlice, 0);
        }
    }

    // One thread keeps the ring full.
    static __device__ void produce(const Float8Params& p, uint8_t* ring, Barriers* barriers, uint32_t begin, uint32_t end) {
        expect_map(&p.weight);
        expect_map(&p.x);
        const uint32_t count = end - begin, early = min(count, static_cast<uint32_t>(kStages));
        Unit ahead(p, begin), unit(p, begin);
        for (uint32_t i = 0; i < early; ++i, ahead.advance(p)) {
            fetch_weights(p, ring + i * kBytes, &barriers->full[i], ahead);
        }
        wait_for_predecessor();
        for (uint32_t i = 0; i < early; ++i, unit.advance(p)) fetch_x(p, ring + i * kBytes, &barriers->full[i], unit);
        RingPlace<kStages> place;
        for (uint32_t i = early; i < count; ++i, unit.advance(p), place.advance()) {
            barriers->empty[place.stage].wait(place.parity);
            fetch_weights(p, ring + place.stage * kBytes, &barriers->full[place.stage], unit);
            fetch_x(p, ring + place.stage * kBytes, &barriers->full[place.stage], unit);
        }
    }

    // The row of the weight that the sums of a thread's upper, or lower, output belong to.
    static __device__ uint32_t weight_row(const Float8Params& p, uint32_t tile, bool lower) {
        if constexpr (kGated) {
            const uint32_t gate = tile * (kOutputs / 2) + threadIdx.x / 32 * 8 + threadIdx.x % 32 / 4;
            return min(lower ? p.outputs / 2 + gate : gate, p.outputs - 1);
        }
        return min(tile * kOutputs + threadIdx.x / 32 * 16 + threadIdx.x % 32 / 4 + (lower ? 8 : 0), p.outputs - 1);
    }

    // Sixteen codes of a row as the fragments of four steps; rows are turned by 128-byte swizzling.
    static __device__ uint4 load_codes(const uint8_t* stage, uint32_t row, uint32_t half) {
        const uint32_t piece = (threadIdx.x % 4 * 2 + half) ^ (row % 8);
        return *reinterpret_cast<const uint4*>(stage + row * kSegment + piece * 16);
    }

    // Sums of one segment, not scaled yet.
    static __device__ void multiply(const uint8_t* stage, uint64_t x, float (&sums)[kSums]) {
        const uint32_t row = threadIdx.x / 32 * 16 + threadIdx.x % 32 / 4;
        // The second half is widened beside the products of the first, where there are registers for both.
        constexpr int kAtOnce = kTokens < 64 ? 8 : 4;
        uint32_t a[kAtOnce][4];
        pin(sums);
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            const uint4 upper = load_codes(stage, row, half), lower = load_codes(stage, row + 8, half);
            const uint32_t up[4] = {upper.x, upper.y, upper.z, upper.w}, low[4] = {lower.x, lower.y, lower.z, lower.w};
            if (half == 1 && kAtOnce == 4) wait_products<0>();
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                const int at = (half * 4 + i) % kAtOnce;
                widen_codes(up[i], a[at][0], a[at][2]);
                widen_codes(low[i], a[at][1], a[at][3]);
            }
            begin_products();
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                const uint32_t bytes = half * kTokens * kSlice * 2 + i * 32;
                multiply_codes<kTokens>(sums, a[(half * 4 + i) % kAtOnce], moved(x, bytes), half != 0 || i != 0);
            }
            commit_products();
        }
        wait_products<0>();
        pin(sums);
    }

    static __device__ void consume(const Float8Params& p, uint8_t* ring, Barriers* barriers, uint32_t begin, uint32_t end) {
        const uint32_t base = shared_address(ring);
        RingPlace<kStages> place;
        Unit unit(p, begin);
        if (p.squares && begin < end) {
            // While the first stages are fetched.
            constexpr int kWarps = kConsumers / 32, kAtOnce = kTokens / kWarps < 8 ? kTokens / kWarps : 8;
            wait_for_predecessor();
            find_factors<kTokens, kWarps, kAtOnce>(p, &barriers->factors, threadIdx.x / 32);
        }
        while (begin < end) {
            // The part of a tile that is this block's.
            const uint32_t tile = unit.tile, first = unit.stage, last = min(p.stages, first + end - begin);
            const float* upper = p.scales.row(weight_row(p, tile, false));
            const float* lower = p.scales.row(weight_row(p, tile, true));
            float sums[kSums] = {};
            for (; unit.stage < last; ++unit.stage, place.advance()) {
                const uint32_t group = unit.stage / p.scales.group_segments;
                const float scales[2] = {__ldg(upper + group), __ldg(lower + group)};
                const uint64_t x = matrix_along(base + place.stage * kBytes + kWeightBytes);
                barriers->full[place.stage].wait(place.parity);
                float part[kSums];
                multiply(ring + place.stage * kBytes, x, part);
                if (threadIdx.x % 32 == 0) barriers->empty[place.stage].arrive();
#pragma unroll
                for (int i = 0; i < kSums; ++i) sums[i] += scales[i / 2 % 2] * part[i];
            }
            const bool whole = first == 0 && last == p.stages;
            if (whole || Tile::join(p, &barriers->last, tile, first == 0, last - first, sums)) {
                const uint32_t place = tile * kOutputs + threadIdx.x / 32 * 16;
                Finish<kTokens>::template run<kEnding>(p, &barriers->factors, place, sums);
            }
            begin += last - first;
            unit.stage = 0;
            ++unit.tile;
        }
    }

    static __device__ void run(const Float8Params& p) {
        extern __shared__ __align__(1024) uint8_t shared[];
        let_successor_begin();
        uint8_t* ring = shared;
        Barriers* barriers = reinterpret_cast<Barriers*>(shared + kStages * kBytes);
        if (threadIdx.x == 0) {
            for (int i = 0; i < kStages; ++i) {
                barriers->full[i].init(1);
                barriers->empty[i].init(kConsumers / 32);
            }
            barriers->factors.found.init(kConsumers / 32);
            publish_barriers();
        }
        __syncthreads();
        const uint32_t begin = Tile::shares(p).begin(blockIdx.x), end = Tile::shares(p).begin(blockIdx.x + 1);
        if (threadIdx.x >= kConsumers) {
            if (threadIdx.x % 32 == 0) produce(p, ring, barriers, begin, end);
        } else {
            consume(p, ring, barriers, begin, end);
        }
    }
};

#define LINEAR_FLOAT8(name, tokens, warpgroups, ending)                                                              \
    extern "C" __global__ void __launch_bounds__(Stream8<tokens, warpgroups, ending>::kThreads, 2) name##_##tokens( \
        const __grid_constant__ Float8Params p) {                                                                    \
        Stream8<tokens, warpgroups, ending>::run(p);                                                                 \
    }
#define LINEAR_FLOAT8_ALL(name, ending)  \
    LINEAR_FLOAT8(name, 8, 1, ending)    \
    LINEAR_FLOAT8(name, 16, 1, ending)   \
    LINEAR_FLOAT8(name, 32, 2, ending)   \
    LINEAR_FLOAT8(name, 64, 2, ending)

LINEAR_FLOAT8_ALL(linear_float8, Ending::kResults)
LINEAR_FLOAT8_ALL(linear_float8_gated, Ending::kGated)
LINEAR_FLOAT8_ALL(linear_float8_onward, Ending::kOnward)
