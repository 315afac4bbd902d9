// Weights as encode_bf12 leaves them.
#pragma once
#include "case.h"

#include "encode_bf12.cu"

struct Bf12Copy {
    uint32_t blocks = 0;
    std::vector<uint4> units, headers;
    std::vector<uint2> outliers;
    std::vector<uint32_t> counts;

    Bf12Copy() = default;

    Bf12Copy(const std::vector<bf16>& weight, int rows, int columns, emulator::Order order)
        : blocks(rows / kUnitRows),
          units(blocks * segments(columns) * kUnitBytes / 16),
          headers(blocks * segments(columns) * kHeaderBytes / 16),
          outliers(blocks * kMaxOutliers),
          counts(blocks) {
        const EncodeParams p{weight.data(),
                           reinterpret_cast<uint8_t*>(units.data()),
                           reinterpret_cast<uint8_t*>(headers.data()),
                           reinterpret_cast<Outlier*>(outliers.data()),
                           counts.data(),
                           uint32_t(rows),
                           uint32_t(columns)};
        const uint32_t all = blocks * segments(columns);
        emulator::launch({(all + kEncodeWarps - 1) / kEncodeWarps, 32 * kEncodeWarps, 0, order}, [&] { encode_bf12(p); });
        for (const uint32_t count : counts) {
            if (count > kMaxOutliers) report("outliers of eight rows", false, words("%u", count));
        }
    }

    static uint32_t segments(int columns) { return (columns + kUnitInputs - 1) / kUnitInputs; }

    uint32_t outlier_count() const {
        uint32_t all = 0;
        for (const uint32_t count : counts) all += count;
        return all;
    }
};

// Mostly numbers of one size; some are nothing, others smaller or larger by far, or of no exponent.
inline Matrix spread(int rows, int columns) {
    Matrix matrix = Matrix::random(rows, columns);
    const float sizes[] = {0.0f, -0.0f, 1e-39f, 3e-12f, 5e-7f, 2e5f, 7e9f, 1e30f};
    for (int i = 0; i < rows * columns / 100; ++i) {
        const uint32_t place = random_numbers().words() % (rows * columns);
        matrix.elements[place] = __float2bfloat16(sizes[i % 8] * (1.0f + i % 3));
    }
    // Larger by one kind than the largest of a table, where the lane's own is another.
    for (int row = 3; row < rows; row += 8) {
        matrix.set(row, 0, 1e-20);
        matrix.set(row, 1, 10);
    }
    return matrix;
}
