// Rows quantised to e4m3: scales, codes and their order, padding, and the residual.
#include "case.h"
#include "pack.cu"

namespace {

using emulator::Order;
using Numbers = std::vector<std::vector<double>>;

struct Case {
    const char* name;
    Source source;
    uint32_t rows;
    uint32_t width;
    bool grouped;
    // GEMM results that are not scaled yet.
    bool lacking;
};

uint32_t padded(uint32_t width) { return (width + kSegment - 1) / kSegment * kSegment; }

std::vector<float> factors(size_t count) {
    std::vector<float> all;
    for (size_t i = 0; i < count; ++i) all.push_back(0.25f + 0.01f * (i % 97));
    return all;
}

// As linear/float8/pack.rs chooses kernels and blocks.
void run(const PackParams& p, Source source, Order order) {
    using Kernel = void (*)(const PackParams);
    const Kernel kernels[3][3] = {{pack_rows_1, pack_rows_2, pack_rows_4},
                                  {pack_gates_1, pack_gates_2, pack_gates_4},
                                  {pack_norm_1, pack_norm_2, pack_norm_4}};
    const uint32_t vectors = padded(p.width) / 8, which = vectors <= 1024 ? 0 : vectors <= 2 * 768 ? 1 : 2, each = 1 << which;
    const uint32_t threads = ((vectors + each - 1) / each + 31) / 32 * 32;
    const uint32_t rows = source == Source::kGates && which < 2 ? 2 : 1;
    emulator::launch({(p.rows + rows - 1) / rows, threads, 0, order}, [&] { kernels[int(source)][which](p); });
}

// A column's code in a row of them.
double decoded(const uint8_t* row, uint32_t column) {
    const uint32_t in_segment = column % kSegment, in_step = in_segment % 16;
    const uint32_t word = in_step % 8 / 2 * 8 + in_segment / 16, byte = in_step % 2 * 2 + in_step / 8;
    __nv_fp8_e4m3 code;
    code.__x = row[column / kSegment * kSegment + 4 * word + byte];
    return static_cast<float>(code);
}

// Every code is the nearest one to its number, scales make the largest number the largest code, and padding is zero.
void check_codes(const std::string& name, const Case& c, const Numbers& numbers, const std::vector<uint8_t>& codes,
                 const std::vector<float>& scales) {
    const uint32_t group = c.grouped ? kSegment : padded(c.width);
    for (uint32_t row = 0; row < c.rows; ++row) {
        for (uint32_t first = 0; first < padded(c.width); first += group) {
            const float scale = c.grouped ? scales[first / kSegment * c.rows + row] : scales[row];
            double largest = 0;
            for (uint32_t i = first; i < std::min(first + group, c.width); ++i) {
                largest = std::max(largest, std::abs(numbers[row][i]));
            }
            const double wanted = largest > 0 ? largest / 448 : 1;
            if (!(std::abs(scale - wanted) < 1e-4 * wanted)) {
                report(name, false, words("row %u has the scale %g from %u on, not %g", row, scale, first, wanted));
            }
            for (uint32_t i = first; i < first + group; ++i) {
                const double found = decoded(&codes[row * padded(c.width)], i);
                const double number = i < c.width ? numbers[row][i] / scale : 0;
                const double bound = 1.001 * std::max(std::abs(number) / 16, 0x1p-10);
                if (!(std::abs(found - number) <= (i < c.width ? bound : 0))) {
                    report(name, false, words("row %u, column %u: %g instead of %g", row, i, found, number));
                }
            }
        }
    }
    report(name, true, words("%u rows", c.rows));
}

void check(const Case& c, Order order) {
    const bool gates = c.source == Source::kGates, norm = c.source == Source::kNorm;
    constexpr float kEps = 1e-3f;
    const Matrix x = Matrix::random(c.rows, c.width * (gates ? 2 : 1), 8), before = Matrix::random(c.rows, c.width, 16);
    Matrix residual = before;
    const std::vector<float> weights = factors(c.width), of_rows = factors(c.rows), of_columns = factors(x.columns);
    std::vector<uint8_t> codes(c.rows * padded(c.width), 0x7f);
    std::vector<float> scales(c.grouped ? c.rows * padded(c.width) / kSegment : c.rows, NAN);
    run({x.elements.data(), reinterpret_cast<uint32_t*>(codes.data()), scales.data(), residual.elements.data(), weights.data(),
         c.lacking ? of_rows.data() : nullptr, c.lacking ? of_columns.data() : nullptr, uint32_t(x.stride),
         uint32_t(residual.stride), c.rows, c.width, padded(c.width) / 4, c.grouped ? c.rows : 0, 1, 0, kEps},
        c.source, order);
    Numbers numbers(c.rows, std::vector<double>(c.width));
    for (uint32_t row = 0; row < c.rows; ++row) {
        const auto at = [&](uint32_t i) { return x.at(row, i) * (c.lacking ? double(of_rows[row]) * of_columns[i] : 1.0); };
        double squares = 0;
        for (uint32_t i = 0; i < c.width; ++i) {
            double& number = numbers[row][i] = at(i);
            if (gates) number = number / (1 + std::exp(-number)) * at(c.width + i);
            if (norm) number += before.at(row, i);
            if (norm && !(std::abs(residual.at(row, i) - number) <= 0x1.01p-8 * std::abs(number) + 1e-6)) {
                report(c.name, false, words("row %u, column %u: the sum is %g", row, i, residual.at(row, i)));
            }
            squares += number * number;
        }
        for (uint32_t i = 0; norm && i < c.width; ++i) {
            numbers[row][i] *= weights[i] / std::sqrt(squares / c.width + kEps);
        }
    }
    if (!residual.has_clean_gaps() || (!norm && !(residual == before))) report(c.name, false, "something else was written");
    check_codes(words("%s of %u, scales a %s%s", c.name, c.width, c.grouped ? "segment" : "row", c.lacking ? ", lacking" : ""),
                c, numbers, codes, scales);
}

}  // namespace

int main() {
    for (bool grouped : {false, true}) {
        check({"rows", Source::kRows, 3, 256, grouped, false}, Order::kForward);
        // Less than a segment, and less than a warp.
        check({"rows", Source::kRows, 2, 72, grouped, false}, Order::kBackward);
        check({"rows", Source::kRows, 1, 8960, grouped, false}, Order::kShuffled);
        for (bool lacking : {false, true}) {
            check({"gates", Source::kGates, 3, 384, grouped, lacking}, Order::kShuffled);
            check({"norm", Source::kNorm, 2, 640, grouped, lacking}, Order::kForward);
        }
        check({"gates", Source::kGates, 2, 8960, grouped, true}, Order::kForward);
        check({"norm", Source::kNorm, 1, 8960, grouped, true}, Order::kBackward);
        check({"rows", Source::kRows, 2, 32768, grouped, false}, Order::kForward);
        check({"gates", Source::kGates, 3, 14336, grouped, true}, Order::kShuffled);
        check({"norm", Source::kNorm, 2, 12416, grouped, true}, Order::kBackward);
    }
}
