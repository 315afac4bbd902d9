// Warp-level MMA as loops over its lanes: lane l has row l / 4 and columns 2 · (l % 4) of every 8×8 matrix.
#pragma once
#include "builtins.h"

#include "bf16.cuh"

namespace emulator {

constexpr uint32_t kRowOfMatrix = 16;

// Elements of an 8×8 matrix as lanes hold them, transposed on demand.
struct SmallMatrix {
    uint16_t rows[8][8];

    uint32_t fragment(uint32_t lane, bool transposed) const {
        const uint32_t row = lane / 4, column = lane % 4 * 2;
        const uint32_t low = transposed ? rows[column][row] : rows[row][column];
        const uint32_t high = transposed ? rows[column + 1][row] : rows[row][column + 1];
        return low | high << 16;
    }
};

template <int kCount>
void ldmatrix(uint32_t (&to)[kCount], uint32_t address, bool transposed) {
    struct Part {
        uint32_t address;
        uint32_t* to;
    } part{address, to};
    together(transposed ? "transposed matrices of its warp" : "matrices of its warp", part, [=](Part** parts) {
        for (uint32_t which = 0; which < kCount; ++which) {
            SmallMatrix matrix;
            for (uint32_t row = 0; row < 8; ++row) {
                const uint32_t from = parts[which * 8 + row]->address;
                memcpy(matrix.rows[row], at_shared(from, kRowOfMatrix, kRowOfMatrix), kRowOfMatrix);
            }
            for (uint32_t lane = 0; lane < kWarp; ++lane) parts[lane]->to[which] = matrix.fragment(lane, transposed);
        }
    });
}

// m16n8k16: a has four matrices, the second below the first, b two below each other with columns as rows.
template <class Widen>
void multiply(const char* what, float (&sum)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1, Widen widen) {
    struct Part {
        float* sum;
        const uint32_t* a;
        uint32_t b[2];
    } part{sum, a, {b0, b1}};
    together(what, part, [widen](Part** parts) {
        double left[16][16], right[16][8];
        for (uint32_t lane = 0; lane < kWarp; ++lane) {
            const uint32_t row = lane / 4, column = lane % 4 * 2;
            for (uint32_t half = 0; half < 2; ++half) {
                const auto number = [&](uint32_t pair) { return widen(static_cast<uint16_t>(pair >> 16 * half)); };
                for (uint32_t i = 0; i < 4; ++i) left[row + i % 2 * 8][column + half + i / 2 * 8] = number(parts[lane]->a[i]);
                for (uint32_t i = 0; i < 2; ++i) right[column + half + i * 8][row] = number(parts[lane]->b[i]);
            }
        }
        for (uint32_t lane = 0; lane < kWarp; ++lane) {
            for (uint32_t i = 0; i < 4; ++i) {
                const uint32_t row = lane / 4 + i / 2 * 8, column = lane % 4 * 2 + i % 2;
                double total = parts[lane]->sum[i];
                for (uint32_t k = 0; k < 16; ++k) total += left[row][k] * right[k][column];
                parts[lane]->sum[i] = static_cast<float>(total);
            }
        }
    });
}

}  // namespace emulator

inline void load_shared_vector(uint32_t (&to)[4], uint32_t address) { memcpy(to, emulator::at_shared(address, 16, 16), 16); }

inline void ldmatrix(uint32_t (&to)[4], uint32_t address) { emulator::ldmatrix(to, address, false); }
inline void ldmatrix(uint32_t (&to)[2], uint32_t address) { emulator::ldmatrix(to, address, false); }
inline void ldmatrix_trans(uint32_t (&to)[4], uint32_t address) { emulator::ldmatrix(to, address, true); }

inline uint32_t movmatrix_trans(uint32_t fragment) {
    struct Part {
        uint32_t given;
        uint32_t found;
    } part{fragment, 0};
    emulator::together("a matrix of its warp to transpose", part, [](Part** parts) {
        emulator::SmallMatrix matrix;
        for (uint32_t lane = 0; lane < emulator::kWarp; ++lane) {
            memcpy(&matrix.rows[lane / 4][lane % 4 * 2], &parts[lane]->given, 4);
        }
        for (uint32_t lane = 0; lane < emulator::kWarp; ++lane) parts[lane]->found = matrix.fragment(lane, true);
    });
    return part.found;
}

inline void mma_bf16(float (&sum)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
    const auto widen = [](uint16_t bits) { return __uint_as_float(static_cast<uint32_t>(bits) << 16); };
    emulator::multiply("an MMA of its warp", sum, a, b0, b1, widen);
}

inline void mma_f16(float (&sum)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
    const auto widen = [](uint16_t bits) { return __half2float(__half(__half_raw{bits})); };
    emulator::multiply("an f16 MMA of its warp", sum, a, b0, b1, widen);
}

inline uint32_t pack_bf16(float low, float high) {
    const __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
    return *reinterpret_cast<const uint32_t*>(&pair);
}

inline uint32_t pack_f16(float low, float high) {
    const __half2 pair = __floats2half2_rn(low, high);
    return *reinterpret_cast<const uint32_t*>(&pair);
}

inline uint32_t widen_fp8(uint32_t two) {
    const __half2_raw wide = __nv_cvt_fp8x2_to_halfraw2(static_cast<__nv_fp8x2_storage_t>(two), __NV_E4M3);
    return wide.x | static_cast<uint32_t>(wide.y) << 16;
}

inline void widen_fp8_pairs(uint32_t pairs, uint32_t& first, uint32_t& second) {
    first = widen_fp8(__byte_perm(pairs, 0, 0x4420));
    second = widen_fp8(__byte_perm(pairs, 0, 0x4431));
}

inline void widen_fp8(uint32_t four, uint32_t& lower, uint32_t& upper) {
    lower = widen_fp8(four);
    upper = widen_fp8(four >> 16);
}
