// GEMMs of more than a hundred rows, plain and gated, beside loops in double precision.
#include "row_gemms.h"

#include "linear_wide.cu"

namespace {

using emulator::Order;

// As linear/wide.rs describes weights and rows.
void check(const GemmCase& shape) {
    Gemm gemm(shape);
    LinearParams p = gemm.params();
    const void* weight = gemm.weight.elements.data();
    const uint64_t inputs = shape.inputs, row = 2 * inputs, outputs = shape.outputs;
    p.weight = gemm.gated
                   ? emulator::make_map(weight, {inputs, 8, 2, outputs / 16}, {row, outputs / 2 * row, 8 * row}, {64, 8, 2, 12})
                   : emulator::make_map(weight, {inputs, 8, 2, outputs / 16}, {2 * row, row, 16 * row}, {64, 8, 2, 12});
    p.x = emulator::make_map(gemm.x.elements.data(), {inputs, uint64_t(shape.rows)}, {2ul * gemm.x.stride}, {64, 128});
    p.stages = (inputs + 63) / 64;
    const uint32_t blocks = (shape.outputs + 191) / 192;
    emulator::launch({blocks, 512, kWholeRoom, shape.order},
                     [&] { gemm.gated ? linear_gated_wide(p) : linear_stream_wide(p); });
    gemm.check("wide");
}

}  // namespace

int main() {
    // Fewer stages than the last ones that are split, rings just full or wrapping several times, tiles and rows that are not full.
    constexpr Epilogue kStore = Epilogue::kStore;
    GemmCase shapes[] = {
        {131, 208, 8, Order::kForward},
        {256, 192, 200, Order::kBackward, kStore, 1, true},
        {130, 16, 256, Order::kShuffled},
        {200, 400, 520, Order::kShuffled, kStore, 1, true, false, true},
        {256, 192, 704, Order::kForward, kStore, 1, true},
        {129, 32, 1096, Order::kBackward, kStore, 1, false, false, true},
    };
    for (GemmCase& shape : shapes) {
        check(shape);
        shape.epilogue = Epilogue::kGated;
        check(shape);
    }
}
