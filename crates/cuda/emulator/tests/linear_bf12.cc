// bf12 weights and their GEMMs: every number is decoded exactly, and sums are those of the numbers.
#include "bf12_weight.h"
#include "row_gemms.h"

#include "argmax.cu"
#include "linear_bf12.cu"

namespace {

using emulator::Order;

using Kernel = void (*)(const Bf12Params);

// Blocks of gates and, where some tiles have 64 outputs less, the number of those that have not.
struct Tiling {
    uint32_t full = 0;
    uint32_t narrow = 0;
};

// As linear/bf12/mod.rs describes weights and rows.
void run(Gemm& gemm, const Bf12Copy& bf12, uint32_t groups, uint32_t tokens, Kernel kernel, Tiling tiling = {}) {
    const GemmCase& shape = gemm.shape;
    Bf12Params p{};
    static_cast<EpilogueParams&>(p) = gemm.params();
    const uint64_t inputs = shape.inputs;
    p.x = emulator::make_map(gemm.x.elements.data(), {inputs, uint64_t(shape.rows)}, {2ul * gemm.x.stride}, {64, tokens});
    p.weight = reinterpret_cast<const uint8_t*>(bf12.units.data());
    p.headers = reinterpret_cast<const uint8_t*>(bf12.headers.data());
    p.outliers = bf12.outliers.data();
    p.units = bf12.blocks;
    p.x_rows = gemm.x.elements.data();
    p.x_stride = gemm.x.stride;
    const uint32_t tile = 64 * groups;
    if (tiling.full + tiling.narrow == 0) tiling.full = (shape.outputs + tile - 1) / tile;
    p.full_tiles = tiling.full;
    p.stages = (shape.inputs + kUnitInputs - 1) / kUnitInputs;
    const uint32_t blocks = (tiling.full + tiling.narrow) * shape.parts, warpgroups = std::max(groups, 2u) + 1;
    emulator::Grid grid{blocks, 128 * warpgroups, kWholeRoom, shape.order};
    grid.cluster = shape.parts;
    grid.predecessor = gemm.come_late();
    emulator::launch(grid, [&] { kernel(p); });
}

void check(const GemmCase& shape, uint32_t groups, uint32_t tokens, const Kernel (&epilogues)[3], Tiling tiling = {}) {
    Gemm gemm(shape);
    const Bf12Copy bf12(gemm.weight.elements, shape.outputs, shape.inputs, shape.order);
    run(gemm, bf12, groups, tokens, epilogues[static_cast<int>(shape.epilogue)], tiling);
    gemm.check(words("bf12 %ux%u", groups, tokens).c_str());
}

// Rows of x that are one in one place: results are weights.
void check_all_numbers(uint32_t rows, uint32_t outputs, uint32_t inputs, uint32_t parts, Kernel kernel) {
    const Matrix weight = spread(outputs, inputs);
    const Bf12Copy bf12(weight.elements, outputs, inputs, Order::kShuffled);
    uint32_t wrong = 0;
    for (uint32_t first = 0; first < inputs; first += rows) {
        GemmCase shape{int(rows), int(outputs), int(inputs), Order::kShuffled, Epilogue::kStore, parts};
        shape.wide = true;
        Gemm gemm(shape, weight);
        for (uint32_t row = 0; row < rows; ++row) {
            for (uint32_t i = 0; i < inputs; ++i) gemm.x.set(row, i, i == first + row);
        }
        run(gemm, bf12, 1, rows, kernel);
        for (uint32_t row = 0; row < std::min(rows, inputs - first); ++row) {
            for (uint32_t i = 0; i < outputs; ++i) wrong += gemm.result(row, i) != weight.at(i, first + row);
        }
    }
    const std::string found = words("%u outliers, %u of %u numbers wrong", bf12.outlier_count(), wrong, outputs * inputs);
    report(words("all numbers of %u x %u, %u rows, %u parts", outputs, inputs, rows, parts), wrong == 0 && bf12.outlier_count() > 8, found);
}

// Small nonzero integers: sums are exact in any order, and several results may be equal.
Matrix whole(int rows, int columns, int gap = 0) {
    Matrix matrix(rows, columns, gap);
    const float numbers[] = {-3, -2, -1, 1, 2, 3};
    for (int row = 0; row < rows; ++row) {
        for (int i = 0; i < columns; ++i) matrix.set(row, i, numbers[random_numbers().words() % 6]);
    }
    return matrix;
}

// The same with more sizes than a table has, in one row of eight.
Matrix with_outliers(Matrix matrix) {
    for (int row = 3; row < matrix.rows; row += 8) {
        const int first = row / 8 * 7 % (matrix.columns - 22);
        for (int i = 0; i < 20; ++i) matrix.set(row, first + i, std::ldexp(i % 3 ? 1 : -1, i - 6));
    }
    return matrix;
}

// The argmax of every row, the lowest index among equals; a row of NaNs draws token 0.
void check_argmax(const GemmCase& shape, uint32_t blocks, uint32_t tokens, Kernel kernel) {
    Gemm gemm(shape, with_outliers(whole(shape.outputs, shape.inputs)));
    gemm.x = whole(shape.rows, shape.inputs, 8);
    for (int i = 0; i < shape.inputs; ++i) gemm.x.set(shape.rows / 2, i, NAN);
    // Some results of this row are infinite, others are not numbers.
    for (int i = 1; i <= 2; ++i) gemm.x.set(1, shape.inputs - i, INFINITY);
    const Bf12Copy bf12(gemm.weight.elements, shape.outputs, shape.inputs, shape.order);
    std::vector<uint32_t> expected, table_rows, out(shape.rows, 77), last(shape.rows + 1, 77);
    for (int row = 0; row < shape.rows; ++row) {
        double largest = -INFINITY;
        uint32_t token = 0;
        for (int output = 0; output < shape.outputs; ++output) {
            double sum = 0;
            for (int i = 0; i < shape.inputs; ++i) sum += double(gemm.x.at(row, i)) * gemm.weight.at(output, i);
            if (sum > largest) largest = sum, token = output;
        }
        expected.push_back(token);
        table_rows.push_back(shape.rows - row);
    }
    std::vector<unsigned long long> keys(shape.rows, 0);
    gemm.keys = keys.data();
    // A second time with the memory that the first run left.
    uint32_t wrong = bf12.outlier_count() == 0;
    for (int turn = 0; turn < 2; ++turn) {
        run(gemm, bf12, 3, tokens, kernel, {blocks, 0});
        const FinishArgmaxParams p{keys.data(), table_rows.data(), out.data(), last.data(), uint32_t(shape.rows)};
        emulator::launch({1, 64, 0, shape.order}, [&] { finish_argmax(p); });
        for (int row = 0; row < shape.rows; ++row) {
            wrong += out[row] != expected[row] || last[shape.rows - row] != expected[row] || keys[row] != 0;
            out[row] = last[shape.rows - row] = 77;
        }
        wrong += last[0] != 77;
    }
    report(words("bf12 argmax of %u, %d rows, %d x %d, %u blocks%s", tokens, shape.rows, shape.outputs, shape.inputs, blocks,
                 shape.deferred ? ", deferred" : ""),
           wrong == 0, words("%u wrong", wrong));
}

#define BF12(groups, tokens)                                                        \
    {                                                                                 \
        linear_bf12_cluster_##groups##x##tokens, linear_bf12_gated_cluster_##groups##x##tokens, \
            linear_bf12_add_norm_cluster_##groups##x##tokens                             \
    }

}  // namespace

int main() {
    constexpr Epilogue kStore = Epilogue::kStore, kGated = Epilogue::kGated, kAddNorm = Epilogue::kAddNorm;
    const Kernel one_8[3] = BF12(1, 8);
    const Kernel one_64[3] = BF12(1, 64);
    const Kernel two_16[3] = BF12(2, 16);
    const Kernel two_32[3] = BF12(2, 32);
    const Kernel three_64[3] = BF12(3, 64);
    check_all_numbers(64, 64, 200, 1, one_64[0]);
    check_all_numbers(8, 96, 264, 2, one_8[0]);
    // Splits of different sizes, tiles and segments that are not full, rings that wrap.
    check({7, 96, 512, Order::kForward, kStore, 4, true}, 1, 8, one_8);
    check({8, 64, 2048, Order::kBackward, kAddNorm, 1, true}, 1, 8, one_8);
    check({16, 160, 640, Order::kShuffled, kAddNorm, 4}, 2, 16, two_16);
    check({9, 96, 328, Order::kShuffled, kGated, 2, true, true, true}, 2, 16, two_16);
    check({32, 256, 384, Order::kBackward, kStore, 2, false, true, false, true}, 2, 32, two_32);
    check({37, 224, 640, Order::kForward, kAddNorm, 2}, 3, 64, three_64);
    check({50, 384, 768, Order::kShuffled, kGated, 1, true, true}, 3, 64, three_64);
    check({64, 416, 256, Order::kBackward, kGated, 2, false, false, true}, 3, 64, three_64);
    // Tiles of which some have 64 outputs less.
    check({61, 512, 1536, Order::kShuffled, kGated, 1, true, true}, 3, 64, three_64, {2, 1});
    check({33, 480, 384, Order::kForward, kGated, 1, false, true}, 3, 64, three_64, {1, 3});
    check({12, 224, 640, Order::kBackward, kGated, 1, true}, 2, 16, two_16, {0, 4});
    // The argmax head: tiles that are not full, one or several per block and not equally many, rings that wrap.
    for (const Order order : {Order::kForward, Order::kBackward, Order::kShuffled}) {
        check_argmax({64, 1056, 640, order}, 4, 64, linear_bf12_argmax_64);
        check_argmax({50, 480, 384, order, kStore, 1, false, true}, 1, 64, linear_bf12_argmax_64);
        check_argmax({41, 160, 1152, order, kStore, 1, false, true}, 1, 64, linear_bf12_argmax_64);
        check_argmax({32, 992, 136, order}, 5, 32, linear_bf12_argmax_32);
        check_argmax({9, 416, 256, order, kStore, 1, false, true}, 3, 16, linear_bf12_argmax_16);
        check_argmax({5, 800, 256, order}, 2, 8, linear_bf12_argmax_8);
    }
    // Ping-pong warpgroups: with every epilogue, rings that wrap, a stage that one of them does not have.
    for (const Order order : {Order::kForward, Order::kBackward, Order::kShuffled}) {
        check({64, 64, 1664, order, kAddNorm, 1}, 1, 64, one_64);
        check({64, 128, 2176, order, kAddNorm, 4, true}, 1, 64, one_64);
        check({41, 96, 640, order, kGated, 1, true, true}, 1, 64, one_64);
        check({64, 64, 1152, order, kGated, 2, false, true}, 1, 64, one_64);
        check({64, 96, 1024, order, kStore, 8, true, true, false, true}, 1, 64, one_64);
        check({5, 64, 2176, order, kGated, 1}, 1, 8, one_8);
    }
}
