// Weights folded, and products of them: every number is found again, and sums are those of the numbers.
#include "folded.h"
#include "row_products.h"

#include "largest.cu"
#include "linear_folded.cu"

namespace {

using emulator::Order;

using Kernel = void (*)(const FoldedParams);

// Tiles of gates; where some have 64 outputs less, those that have not, and those.
struct Tiling {
    uint32_t full = 0;
    uint32_t narrow = 0;
};

// As linear/folded/mod.rs describes weights and rows.
void run(Product& product, const Folded& folded, uint32_t groups, uint32_t tokens, Kernel kernel, Tiling tiling = {}) {
    const ProductCase& shape = product.shape;
    FoldedParams p{};
    static_cast<LinearSurroundings&>(p) = product.params();
    const uint64_t inputs = shape.inputs;
    p.x = emulator::make_map(product.x.elements.data(), {inputs, uint64_t(shape.rows)}, {2ul * product.x.stride}, {64, tokens});
    p.weight = reinterpret_cast<const uint8_t*>(folded.units.data());
    p.heads = reinterpret_cast<const uint8_t*>(folded.heads.data());
    p.strays = folded.strays.data();
    p.units = folded.blocks;
    p.x_rows = product.x.elements.data();
    p.x_stride = product.x.stride;
    const uint32_t tile = 64 * groups;
    if (tiling.full + tiling.narrow == 0) tiling.full = (shape.outputs + tile - 1) / tile;
    p.full_tiles = tiling.full;
    p.stages = (shape.inputs + kUnitInputs - 1) / kUnitInputs;
    const uint32_t blocks = (tiling.full + tiling.narrow) * shape.parts, warpgroups = std::max(groups, 2u) + 1;
    emulator::Grid grid{blocks, 128 * warpgroups, kWholeRoom, shape.order};
    grid.cluster = shape.parts;
    grid.predecessor = product.come_late();
    emulator::launch(grid, [&] { kernel(p); });
}

void check(const ProductCase& shape, uint32_t groups, uint32_t tokens, const Kernel (&endings)[3], Tiling tiling = {}) {
    Product product(shape);
    const Folded folded(product.weight.elements, shape.outputs, shape.inputs, shape.order);
    run(product, folded, groups, tokens, endings[static_cast<int>(shape.ending)], tiling);
    product.check(words("folded %ux%u", groups, tokens).c_str());
}

// Rows of x that are one in one place: results are weights.
void check_all_numbers(uint32_t rows, uint32_t outputs, uint32_t inputs, uint32_t parts, Kernel kernel) {
    const Matrix weight = spread(outputs, inputs);
    const Folded folded(weight.elements, outputs, inputs, Order::kShuffled);
    uint32_t wrong = 0;
    for (uint32_t first = 0; first < inputs; first += rows) {
        ProductCase shape{int(rows), int(outputs), int(inputs), Order::kShuffled, Ending::kResults, parts};
        shape.wide = true;
        Product product(shape, weight);
        for (uint32_t row = 0; row < rows; ++row) {
            for (uint32_t i = 0; i < inputs; ++i) product.x.set(row, i, i == first + row);
        }
        run(product, folded, 1, rows, kernel);
        for (uint32_t row = 0; row < std::min(rows, inputs - first); ++row) {
            for (uint32_t i = 0; i < outputs; ++i) wrong += product.result(row, i) != weight.at(i, first + row);
        }
    }
    const std::string found = words("%u strays, %u of %u numbers wrong", folded.stray_count(), wrong, outputs * inputs);
    report(words("all numbers of %u x %u, %u rows, %u parts", outputs, inputs, rows, parts), wrong == 0 && folded.stray_count() > 8, found);
}

// Small whole numbers, none of them zero: sums are exact in any order, and several results may be as large.
Matrix whole(int rows, int columns, int gap = 0) {
    Matrix matrix(rows, columns, gap);
    const float numbers[] = {-3, -2, -1, 1, 2, 3};
    for (int row = 0; row < rows; ++row) {
        for (int i = 0; i < columns; ++i) matrix.set(row, i, numbers[random_numbers().words() % 6]);
    }
    return matrix;
}

// The same with more sizes than a table has, in one row of eight.
Matrix with_strays(Matrix matrix) {
    for (int row = 3; row < matrix.rows; row += 8) {
        const int first = row / 8 * 7 % (matrix.columns - 22);
        for (int i = 0; i < 20; ++i) matrix.set(row, first + i, std::ldexp(i % 3 ? 1 : -1, i - 6));
    }
    return matrix;
}

// The lowest of the largest results of every row; of a row that is not a number none is, which draws token 0.
void check_largest(const ProductCase& shape, uint32_t blocks, uint32_t tokens, Kernel kernel) {
    Product product(shape, with_strays(whole(shape.outputs, shape.inputs)));
    product.x = whole(shape.rows, shape.inputs, 8);
    for (int i = 0; i < shape.inputs; ++i) product.x.set(shape.rows / 2, i, NAN);
    // Some results of this row are infinite, others are not numbers.
    for (int i = 1; i <= 2; ++i) product.x.set(1, shape.inputs - i, INFINITY);
    const Folded folded(product.weight.elements, shape.outputs, shape.inputs, shape.order);
    std::vector<uint32_t> expected, table_rows, out(shape.rows, 77), last(shape.rows + 1, 77);
    for (int row = 0; row < shape.rows; ++row) {
        double largest = -INFINITY;
        uint32_t token = 0;
        for (int output = 0; output < shape.outputs; ++output) {
            double sum = 0;
            for (int i = 0; i < shape.inputs; ++i) sum += double(product.x.at(row, i)) * product.weight.at(output, i);
            if (sum > largest) largest = sum, token = output;
        }
        expected.push_back(token);
        table_rows.push_back(shape.rows - row);
    }
    std::vector<unsigned long long> keys(shape.rows, 0);
    product.keys = keys.data();
    // A second time with what the first one left.
    uint32_t wrong = folded.stray_count() == 0;
    for (int turn = 0; turn < 2; ++turn) {
        run(product, folded, 3, tokens, kernel, {blocks, 0});
        const SettleParams p{keys.data(), table_rows.data(), out.data(), last.data(), uint32_t(shape.rows)};
        emulator::launch({1, 64, 0, shape.order}, [&] { settle_largest(p); });
        for (int row = 0; row < shape.rows; ++row) {
            wrong += out[row] != expected[row] || last[shape.rows - row] != expected[row] || keys[row] != 0;
            out[row] = last[shape.rows - row] = 77;
        }
        wrong += last[0] != 77;
    }
    report(words("folded largest of %u, %d rows, %d x %d, %u blocks%s", tokens, shape.rows, shape.outputs, shape.inputs, blocks,
                 shape.late ? ", late" : ""),
           wrong == 0, words("%u wrong", wrong));
}

#define FOLDED(groups, tokens)                                                        \
    {                                                                                 \
        linear_folded_team_##groups##x##tokens, linear_folded_gated_team_##groups##x##tokens, \
            linear_folded_onward_team_##groups##x##tokens                             \
    }

}  // namespace

int main() {
    constexpr Ending kResults = Ending::kResults, kGated = Ending::kGated, kOnward = Ending::kOnward;
    const Kernel one_8[3] = FOLDED(1, 8);
    const Kernel one_64[3] = FOLDED(1, 64);
    const Kernel two_16[3] = FOLDED(2, 16);
    const Kernel two_32[3] = FOLDED(2, 32);
    const Kernel three_64[3] = FOLDED(3, 64);
    check_all_numbers(64, 64, 200, 1, one_64[0]);
    check_all_numbers(8, 96, 264, 2, one_8[0]);
    // Parts of different sizes, tiles and segments that are not full, rings that turn.
    check({7, 96, 512, Order::kForward, kResults, 4, true}, 1, 8, one_8);
    check({8, 64, 2048, Order::kBackward, kOnward, 1, true}, 1, 8, one_8);
    check({16, 160, 640, Order::kShuffled, kOnward, 4}, 2, 16, two_16);
    check({9, 96, 328, Order::kShuffled, kGated, 2, true, true, true}, 2, 16, two_16);
    check({32, 256, 384, Order::kBackward, kResults, 2, false, true, false, true}, 2, 32, two_32);
    check({37, 224, 640, Order::kForward, kOnward, 2}, 3, 64, three_64);
    check({50, 384, 768, Order::kShuffled, kGated, 1, true, true}, 3, 64, three_64);
    check({64, 416, 256, Order::kBackward, kGated, 2, false, false, true}, 3, 64, three_64);
    // Tiles of which some have 64 outputs less.
    check({61, 512, 1536, Order::kShuffled, kGated, 1, true, true}, 3, 64, three_64, {2, 1});
    check({33, 480, 384, Order::kForward, kGated, 1, false, true}, 3, 64, three_64, {1, 3});
    check({12, 224, 640, Order::kBackward, kGated, 1, true}, 2, 16, two_16, {0, 4});
    // The largest alone: tiles that are not full, one or several of a block and not as many of each, rings that turn.
    for (const Order order : {Order::kForward, Order::kBackward, Order::kShuffled}) {
        check_largest({64, 1056, 640, order}, 4, 64, linear_folded_largest_64);
        check_largest({50, 480, 384, order, kResults, 1, false, true}, 1, 64, linear_folded_largest_64);
        check_largest({41, 160, 1152, order, kResults, 1, false, true}, 1, 64, linear_folded_largest_64);
        check_largest({32, 992, 136, order}, 5, 32, linear_folded_largest_32);
        check_largest({9, 416, 256, order, kResults, 1, false, true}, 3, 16, linear_folded_largest_16);
        check_largest({5, 800, 256, order}, 2, 8, linear_folded_largest_8);
    }
    // Warpgroups that take turns: with every ending, rings that turn, a turn that one of them does not have.
    for (const Order order : {Order::kForward, Order::kBackward, Order::kShuffled}) {
        check({64, 64, 1664, order, kOnward, 1}, 1, 64, one_64);
        check({64, 128, 2176, order, kOnward, 4, true}, 1, 64, one_64);
        check({41, 96, 640, order, kGated, 1, true, true}, 1, 64, one_64);
        check({64, 64, 1152, order, kGated, 2, false, true}, 1, 64, one_64);
        check({64, 96, 1024, order, kResults, 8, true, true, false, true}, 1, 64, one_64);
        check({5, 64, 2176, order, kGated, 1}, 1, 8, one_8);
    }
}
