// Quantises rows to e4m3 for GEMMs of many rows: plain, gated, or normalised.
//
// A block takes a row, or two; a thread takes eight columns at a time and keeps them in registers, so memory is read once. A
// scale maps the largest number that it covers to the largest code.
#include "common/activate.cuh"
#include "common/float8.cuh"
#include "common/hopper.cuh"
#include "common/number.cuh"
#include "common/order.cuh"
#include "common/reduce.cuh"

struct PackParams {
    // Rows; where gated, gates and up values side by side.
    const bf16* x;
    uint32_t* codes;
    float* scales;
    // Where normalised: the residual, and the norm's weight.
    bf16* residual;
    const void* norm;
    // Where x is a GEMM of codes that is not scaled yet: a scale per row, and one per column.
    const float* row_scales;
    const float* column_scales;
    uint32_t x_stride;
    uint32_t residual_stride;
    uint32_t rows;
    uint32_t width;
    // Words of a row of codes, which is padded to whole segments.
    uint32_t words;
    // Rows of a column of scales where there is one per segment; zero: one scale per row.
    uint32_t scale_stride;
    uint32_t wide_norm;
    uint32_t gelu;
    float eps;
};

enum class Source { kRows, kGates, kNorm };

// Smaller maxima become zero: their inverse might be infinite.
constexpr float kSmallest = 0x1p-100f;

// Eight columns of a row.
template <Source kSource>
struct Vector {
    Bf16x8 x, other;

    __device__ __forceinline__ void load(const PackParams& p, size_t row, uint32_t at) {
        const bf16* from = p.x + row * p.x_stride + at;
        x = load8(from);
        if constexpr (kSource == Source::kGates) other = load8(from + p.width);
        if constexpr (kSource == Source::kNorm) other = load8(p.residual + row * p.residual_stride + at);
    }
};

// Factors of eight columns, the same for every row.
template <Source kSource, bool kAhead>
struct Factors {
    float scales[8], other[8];

    __device__ __forceinline__ void load(const PackParams& p, uint32_t at) {
        if constexpr (kSource == Source::kNorm) numbers(p.norm, p.wide_norm, at, other);
        if (kSource == Source::kRows || !p.column_scales) return;
        numbers(p.column_scales, true, at, scales);
        if constexpr (kSource == Source::kGates && kAhead) numbers(p.column_scales, true, p.width + at, other);
    }

    // The numbers to be packed; returns their sum of squares where they are normalised.
    __device__ __forceinline__ float apply(const PackParams& p, const Vector<kSource>& vector, size_t row, uint32_t at,
                                           float row_scale, float (&values)[8]) {
        unpack8(vector.x, values);
        if constexpr (kSource == Source::kRows) return 0.0f;
        float others[8], squares = 0.0f;
        unpack8(vector.other, others);
        if (p.column_scales) {
#pragma unroll
            for (int j = 0; j < 8; ++j) values[j] *= row_scale * scales[j];
            if constexpr (kSource == Source::kGates && !kAhead) numbers(p.column_scales, true, p.width + at, other);
#pragma unroll
            for (int j = 0; j < 8; ++j) {
                if constexpr (kSource == Source::kGates) others[j] *= row_scale * other[j];
            }
        }
#pragma unroll
        for (int j = 0; j < 8; ++j) {
            values[j] = kSource == Source::kGates ? activate(values[j], p.gelu) * others[j] : values[j] + others[j];
            squares += values[j] * values[j];
        }
        if constexpr (kSource == Source::kNorm) {
            store8(p.residual + row * p.residual_stride + at, pack8(values));
#pragma unroll
            for (int j = 0; j < 8; ++j) values[j] *= other[j];
        }
        return squares;
    }
};

__device__ __forceinline__ float largest_of(const float (&values)[8]) {
    float largest = 0.0f;
#pragma unroll
    for (int j = 0; j < 8; ++j) largest = fmaxf(largest, fabsf(values[j]));
    return largest;
}

// The maximum over the sixteen threads that hold a segment.
__device__ __forceinline__ float segment_max(float value) {
#pragma unroll
    for (int offset = 8; offset > 0; offset /= 2) value = fmaxf(value, __shfl_xor_sync(0xffffffffu, value, offset));
    return value;
}

// Eight columns of each of two neighbouring threads as two words of each, in the order of common/float8.cuh.
__device__ __forceinline__ uint2 words_of(const float (&values)[8], float factor) {
    const auto two = [&](int j) -> uint32_t {
        const float2 pair = make_float2(values[j] * factor, values[j + 1] * factor);
        return __nv_cvt_float2_to_fp8x2(pair, __NV_SATFINITE, __NV_E4M3);
    };
    const uint32_t low = two(0) | two(2) << 16, high = two(4) | two(6) << 16;
    const bool second = threadIdx.x % 2 != 0;
    const uint32_t kept = second ? high : low, given = __shfl_xor_sync(0xffffffffu, second ? low : high, 1);
    const uint32_t near = second ? given : kept, far = second ? kept : given;
    return make_uint2(__byte_perm(near, far, 0x5140), __byte_perm(near, far, 0x7362));
}

// The block's sum and maximum, in every thread.
__device__ __forceinline__ float2 over_block(float sum, float largest, float2 (&parts)[32]) {
    const uint32_t lane = threadIdx.x % 32;
    sum = warp_sum(sum);
    largest = warp_max(largest);
    if (lane == 0) parts[threadIdx.x / 32] = make_float2(sum, largest);
    __syncthreads();
    const float2 part = lane < blockDim.x / 32 ? parts[lane] : make_float2(0.0f, 0.0f);
    return make_float2(warp_sum(part.x), warp_max(part.y));
}

// Writes codes and scales of a row. `largest`: the row's maximum where it has one scale. `factor` multiplies the scales.
template <int kVectors>
__device__ __forceinline__ void write(const PackParams& p, size_t row, const float (&values)[kVectors][8], float largest,
                                      float factor) {
    const auto scale = [&](float most) { return most >= kSmallest ? most * factor / kLargestFloat8 : 1.0f; };
    if (p.scale_stride == 0 && threadIdx.x == 0) p.scales[row] = scale(largest);
#pragma unroll
    for (int i = 0; i < kVectors; ++i) {
        const uint32_t vector = threadIdx.x + i * blockDim.x;
        const float most = p.scale_stride == 0 ? largest : segment_max(largest_of(values[i]));
        const uint2 words = words_of(values[i], most >= kSmallest ? kLargestFloat8 / most : 1.0f);
        if (2 * vector >= p.words) continue;
        if (p.scale_stride != 0 && vector % 16 == 0) {
            p.scales[static_cast<size_t>(vector / 16) * p.scale_stride + row] = scale(most);
        }
        uint32_t* codes = p.codes + row * p.words + vector / 16 * kSegmentWords + vector % 2 * 16 + vector % 16 / 2;
        codes[0] = words.x;
        codes[8] = words.y;
    }
}

template <Source kSource, int kVectors, int kRows>
__device__ __forceinline__ void pack(const PackParams& p) {
    constexpr bool kNorm = kSource == Source::kNorm;
    static_assert(!kNorm || kRows == 1, "sums are written as they are made");
    __shared__ float2 parts[kRows][32];
    const uint32_t first = blockIdx.x * kRows;
    const auto at = [&](int i) { return 8 * (threadIdx.x + i * blockDim.x); };
    // Rows of four vectors leave no registers to load ahead.
    constexpr bool kAhead = kVectors <= 2 || kSource == Source::kRows;
    Vector<kSource> vectors[kRows][kVectors];
    Factors<kSource, kAhead> factors;
    launch_dependent_grids();
    // Column factors may be read before the predecessor has ended.
    if (at(0) < p.width) factors.load(p, at(0));
    wait_on_dependent_grids();
    float row_scales[kRows], values[kRows][kVectors][8], squares[kRows] = {}, largest[kRows] = {};
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
        // With an odd number of rows the last one is read twice and written once.
        const uint32_t row = min(first + r, p.rows - 1);
        row_scales[r] = p.row_scales ? p.row_scales[row] : 1.0f;
#pragma unroll
        for (int i = 0; i < kVectors; ++i) {
            if (kAhead && at(i) < p.width) vectors[r][i].load(p, row, at(i));
        }
    }
#pragma unroll
    for (int i = 0; i < kVectors; ++i) {
        if (i > 0 && at(i) < p.width) factors.load(p, at(i));
#pragma unroll
        for (int r = 0; r < kRows; ++r) {
#pragma unroll
            for (int j = 0; j < 8; ++j) values[r][i][j] = 0.0f;
            if (at(i) >= p.width) continue;
            if (!kAhead) vectors[r][i].load(p, min(first + r, p.rows - 1), at(i));
            squares[r] += factors.apply(p, vectors[r][i], first + r, at(i), row_scales[r], values[r][i]);
            largest[r] = fmaxf(largest[r], largest_of(values[r][i]));
        }
    }
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
        // The norm factor goes into the scales; codes are the same without it.
        float factor = 1.0f;
        if (kNorm || p.scale_stride == 0) {
            const float2 all = over_block(squares[r], largest[r], parts[r]);
            if constexpr (kNorm) factor = rsqrtf(all.x / p.width + p.eps);
            largest[r] = all.y;
        }
        if (first + r < p.rows) write(p, first + r, values[r], largest[r], factor);
    }
}

// Register limits: two blocks per SM for usual models (512 threads, norm), one for 768 threads (two gated rows, which share
// column factors). Blocks with `vectors` 2 have at most 768 threads, others 1024.
#define PACK(name, source, vectors, rows, registers) \
    extern "C" __global__ void __maxnreg__(registers) name##_##vectors(const __grid_constant__ PackParams p) { \
        pack<source, vectors, rows>(p);                                                                        \
    }

PACK(pack_rows, Source::kRows, 1, 1, 40)
PACK(pack_rows, Source::kRows, 2, 1, 40)
PACK(pack_rows, Source::kRows, 4, 1, 64)
PACK(pack_gates, Source::kGates, 1, 2, 64)
PACK(pack_gates, Source::kGates, 2, 2, 80)
PACK(pack_gates, Source::kGates, 4, 1, 64)
PACK(pack_norm, Source::kNorm, 1, 1, 48)
PACK(pack_norm, Source::kNorm, 2, 1, 64)
PACK(pack_norm, Source::kNorm, 4, 1, 64)
