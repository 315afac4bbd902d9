// GEMMs of up to eight rows: tiles of one to sixteen groups of outputs, several of them per block.
#include "row_gemms.h"

#include "linear_few.cu"

namespace {

using emulator::Order;

// As linear/stream.rs describes weights and rows.
void check(const GemmCase& shape, uint32_t groups, uint32_t blocks, void (*const (&epilogues)[3])(const LinearParams)) {
    Gemm gemm(shape);
    LinearParams p = gemm.params();
    const uint64_t row = 2 * shape.inputs, outputs = shape.outputs, all = shape.inputs / 64;
    const uint32_t slices = groups >= 8 ? 1 : groups >= 4 ? 2 : groups >= 2 ? 4 : 8;
    p.weight = gemm.gated ? emulator::make_map(gemm.weight.elements.data(), {64, 8, 2, outputs / 16, all},
                                                  {row, outputs / 2 * row, 8 * row, 128}, {64, 8, 2, groups, slices})
                             : emulator::make_map(gemm.weight.elements.data(), {64, outputs, all}, {row, 128},
                                                  {64, 16 * groups, slices});
    p.x = emulator::make_map(gemm.x.elements.data(), {64, uint64_t(shape.rows), all}, {2ul * gemm.x.stride, 128},
                             {64, 8, slices});
    p.stages = (all + slices - 1) / slices;
    emulator::Grid grid{blocks, kThreads, kMostRoom, shape.order};
    grid.predecessor = gemm.come_late();
    emulator::launch(grid, [&] { epilogues[static_cast<int>(shape.epilogue)](p); });
    gemm.check(words("%u groups", groups).c_str());
}

#define FEW(groups) { linear_stream_few_##groups, linear_gated_few_##groups, linear_add_norm_few_##groups }

}  // namespace

int main() {
    constexpr Epilogue kStore = Epilogue::kStore, kGated = Epilogue::kGated, kAddNorm = Epilogue::kAddNorm;
    void (*const one[3])(const LinearParams) = FEW(1);
    void (*const three[3])(const LinearParams) = FEW(3);
    void (*const nine[3])(const LinearParams) = FEW(9);
    void (*const sixteen[3])(const LinearParams) = FEW(16);
    check({8, 64, 1088, Order::kForward, kStore, 1, true}, 1, 2, one);
    check({8, 300, 512, Order::kShuffled, kStore, 1, true}, 1, 2, one);
    check({5, 120, 512, Order::kShuffled, kAddNorm}, 1, 4, one);
    check({3, 96, 576, Order::kBackward, kGated, 1, true, true, true}, 3, 1, three);
    check({8, 104, 320, Order::kShuffled, kAddNorm, 1, true}, 3, 2, three);
    check({7, 300, 192, Order::kShuffled, kStore, 1, false, true, false, true}, 9, 2, nine);
    check({6, 512, 256, Order::kBackward, kGated, 1, false, true}, 16, 1, sixteen);
    check({4, 264, 1024, Order::kForward, kAddNorm}, 16, 2, sixteen);
}
