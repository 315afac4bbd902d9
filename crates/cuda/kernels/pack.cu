// Rows rounded to eight-bit floats, as products of many rows take them: as they are, gated, or behind a norm.
//
// A block takes a row, or two, and a thread eight columns at a time; all of them stay in registers, so that memory is read
// once. A scale makes the largest number that it covers the largest code.
#include "common/activate.cuh"
#include "common/float8.cuh"
#include "common/hopper.cuh"
#include "common/number.cuh"
#include "common/order.cuh"
#include "common/reduce.cuh"

struct PackParams {
    // Rows; gates and their factors side by side where they are gated.
    const bf16* x;
    uint32_t* codes;
    float* scales;
    // Where rows are normalised: what they are added to, and one factor a column.
    bf16* residual;
    const void* norm;
    // What x lacks where it is sums of codes: a scale a row, and one a column.
    const float* row_scales;
    const float* column_scales;
    uint32_t x_stride;
    uint32_t residual_stride;
    uint32_t rows;
    uint32_t width;
    // Of a row of codes, which is padded to whole segments.
    uint32_t words;
    // Rows of a column of scales when there is one a segment; zero: one a row.
    uint32_t scale_stride;
    uint32_t wide_norm;
    uint32_t gelu;
    float eps;
};

enum class Source { kRows, kGates, kNorm };

// What is smaller becomes zero: its inverse might be infinite.
constexpr float kSmallest = 0x1p-100f;

// Eight columns of a row, as they come from memory.
template <Source kSource>
struct Piece {
    Bf16x8 x, other;

    __device__ __forceinline__ void load(const PackParams& p, size_t row, uint32_t at) {
        const bf16* from = p.x + row * p.x_stride + at;
        x = load8(from);
        if constexpr (kSource == Source::kGates) other = load8(from + p.width);
        if constexpr (kSource == Source::kNorm) other = load8(p.residual + row * p.residual_stride + at);
    }
};

// What belongs to eight columns of every row.
template <Source kSource, bool kAhead>
struct Factors {
    float scales[8], other[8];

    __device__ __forceinline__ void load(const PackParams& p, uint32_t at) {
        if constexpr (kSource == Source::kNorm) numbers(p.norm, p.wide_norm, at, other);
        if (kSource == Source::kRows || !p.column_scales) return;
        numbers(p.column_scales, true, at, scales);
        if constexpr (kSource == Source::kGates && kAhead) numbers(p.column_scales, true, p.width + at, other);
    }

    // Numbers to be packed; gives the sum of squares of those that a norm is of.
    __device__ __forceinline__ float apply(const PackParams& p, const Piece<kSource>& piece, size_t row, uint32_t at,
                                           float row_scale, float (&values)[8]) {
        unpack8(piece.x, values);
        if constexpr (kSource == Source::kRows) return 0.0f;
        float others[8], squares = 0.0f;
        unpack8(piece.other, others);
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

// The largest of the sixteen threads that hold a segment.
__device__ __forceinline__ float segment_max(float value) {
#pragma unroll
    for (int offset = 8; offset > 0; offset /= 2) value = fmaxf(value, __shfl_xor_sync(0xffffffffu, value, offset));
    return value;
}

// Eight columns of each of two neighbours as two words of each, ordered as common/float8.cuh says.
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

// The sum and the largest of the block's numbers, in every thread.
__device__ __forceinline__ float2 over_block(float sum, float largest, float2 (&parts)[32]) {
    const uint32_t lane = threadIdx.x % 32;
    sum = warp_sum(sum);
    largest = warp_max(largest);
    if (lane == 0) parts[threadIdx.x / 32] = make_float2(sum, largest);
    __syncthreads();
    const float2 part = lane < blockDim.x / 32 ? parts[lane] : make_float2(0.0f, 0.0f);
    return make_float2(warp_sum(part.x), warp_max(part.y));
}

// Codes of a row and its scales; `largest` is that of the whole row where it has one scale. Scales take a factor besides.
template <int kPieces>
__device__ __forceinline__ void write(const PackParams& p, size_t row, const float (&values)[kPieces][8], float largest,
                                      float factor) {
    const auto scale = [&](float most) { return most >= kSmallest ? most * factor / kLargestFloat8 : 1.0f; };
    if (p.scale_stride == 0 && threadIdx.x == 0) p.scales[row] = scale(largest);
#pragma unroll
    for (int i = 0; i < kPieces; ++i) {
        const uint32_t piece = threadIdx.x + i * blockDim.x;
        const float most = p.scale_stride == 0 ? largest : segment_max(largest_of(values[i]));
        const uint2 words = words_of(values[i], most >= kSmallest ? kLargestFloat8 / most : 1.0f);
        if (2 * piece >= p.words) continue;
        if (p.scale_stride != 0 && piece % 16 == 0) {
            p.scales[static_cast<size_t>(piece / 16) * p.scale_stride + row] = scale(most);
        }
        uint32_t* codes = p.codes + row * p.words + piece / 16 * kSegmentWords + piece % 2 * 16 + piece % 16 / 2;
        codes[0] = words.x;
        codes[8] = words.y;
    }
}

template <Source kSource, int kPieces, int kRows>
__device__ __forceinline__ void pack(const PackParams& p) {
    constexpr bool kNorm = kSource == Source::kNorm;
    static_assert(!kNorm || kRows == 1, "sums are written as they are made");
    __shared__ float2 parts[kRows][32];
    const uint32_t first = blockIdx.x * kRows;
    const auto at = [&](int i) { return 8 * (threadIdx.x + i * blockDim.x); };
    // Rows of four pieces leave no registers for pieces that wait.
    constexpr bool kAhead = kPieces <= 2 || kSource == Source::kRows;
    Piece<kSource> pieces[kRows][kPieces];
    Factors<kSource, kAhead> factors;
    let_successor_begin();
    // What belongs to columns is there before the predecessor has ended.
    if (at(0) < p.width) factors.load(p, at(0));
    wait_for_predecessor();
    float row_scales[kRows], values[kRows][kPieces][8], squares[kRows] = {}, largest[kRows] = {};
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
        // Where rows are odd the last one comes twice, and is written once.
        const uint32_t row = min(first + r, p.rows - 1);
        row_scales[r] = p.row_scales ? p.row_scales[row] : 1.0f;
#pragma unroll
        for (int i = 0; i < kPieces; ++i) {
            if (kAhead && at(i) < p.width) pieces[r][i].load(p, row, at(i));
        }
    }
#pragma unroll
    for (int i = 0; i < kPieces; ++i) {
        if (i > 0 && at(i) < p.width) factors.load(p, at(i));
#pragma unroll
        for (int r = 0; r < kRows; ++r) {
#pragma unroll
            for (int j = 0; j < 8; ++j) values[r][i][j] = 0.0f;
            if (at(i) >= p.width) continue;
            if (!kAhead) pieces[r][i].load(p, min(first + r, p.rows - 1), at(i));
            squares[r] += factors.apply(p, pieces[r][i], first + r, at(i), row_scales[r], values[r][i]);
            largest[r] = fmaxf(largest[r], largest_of(values[r][i]));
        }
    }
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
        // A norm's own factor is a matter of scales: codes are the same without.
        float factor = 1.0f;
        if (kNorm || p.scale_stride == 0) {
            const float2 all = over_block(squares[r], largest[r], parts[r]);
            if constexpr (kNorm) factor = rsqrtf(all.x / p.width + p.eps);
            largest[r] = all.y;
        }
        if (first + r < p.rows) write(p, first + r, values[r], largest[r], factor);
    }
}

// As many registers as let blocks of usual models be on a multiprocessor by twos (512 threads, a norm) or alone (768, two
// rows of gates, which share what belongs to columns). Blocks of `pieces` 2 have at most 768 threads, others 1024.
#define PACK(name, source, pieces, rows, registers) \
    extern "C" __global__ void __maxnreg__(registers) name##_##pieces(const __grid_constant__ PackParams p) { \
        pack<source, pieces, rows>(p);                                                                        \
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
