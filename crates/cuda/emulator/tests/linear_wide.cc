// Products of a hundred rows and more, plain and gated, beside loops in double precision.
#include "row_products.h"

#include "linear_wide.cu"

namespace {

using emulator::Order;

// As linear/wide.rs describes weights and rows.
void check(const ProductCase& shape) {
    Product product(shape);
    LinearParams p = product.params();
    const void* weight = product.weight.elements.data();
    const uint64_t inputs = shape.inputs, row = 2 * inputs, outputs = shape.outputs;
    p.weight = product.gated
                   ? emulator::make_map(weight, {inputs, 8, 2, outputs / 16}, {row, outputs / 2 * row, 8 * row}, {64, 8, 2, 12})
                   : emulator::make_map(weight, {inputs, 8, 2, outputs / 16}, {2 * row, row, 16 * row}, {64, 8, 2, 12});
    p.x = emulator::make_map(product.x.elements.data(), {inputs, uint64_t(shape.rows)}, {2ul * product.x.stride}, {64, 128});
    p.stages = (inputs + 63) / 64;
    const uint32_t blocks = (shape.outputs + 191) / 192;
    emulator::launch({blocks, 512, kWholeRoom, shape.order},
                     [&] { product.gated ? linear_gated_wide(p) : linear_stream_wide(p); });
    product.check("wide");
}

}  // namespace

int main() {
    // One stage and fewer than are last, rings that are just full and that turn several times, tiles and rows that are not full.
    constexpr Ending kResults = Ending::kResults;
    ProductCase shapes[] = {
        {131, 208, 8, Order::kForward},
        {256, 192, 200, Order::kBackward, kResults, 1, true},
        {130, 16, 256, Order::kShuffled},
        {200, 400, 520, Order::kShuffled, kResults, 1, true, false, true},
        {256, 192, 704, Order::kForward, kResults, 1, true},
        {129, 32, 1096, Order::kBackward, kResults, 1, false, false, true},
    };
    for (ProductCase& shape : shapes) {
        check(shape);
        shape.ending = Ending::kGated;
        check(shape);
    }
}
