// Products of tens of rows: tiles of one to three warpgroups, inputs shared by the blocks of a cluster.
#include "row_gemms.h"

#include "linear_cluster.cu"

namespace {

using emulator::Order;

// As linear/cluster.rs describes weights and rows.
void check(const GemmCase& shape, uint32_t groups, uint32_t tokens, void (*const (&epilogues)[3])(const LinearParams)) {
    Gemm gemm(shape);
    LinearParams p = gemm.params();
    const uint64_t inputs = shape.inputs, row = 2 * inputs, outputs = shape.outputs;
    const uint32_t tile = 64 * groups;
    p.weight = gemm.gated ? emulator::make_map(gemm.weight.elements.data(), {inputs, 8, 2, outputs / 16},
                                                  {row, outputs / 2 * row, 8 * row}, {64, 8, 2, tile / 16})
                             : emulator::make_map(gemm.weight.elements.data(), {inputs, outputs}, {row}, {64, tile});
    p.x = emulator::make_map(gemm.x.elements.data(), {inputs, uint64_t(shape.rows)}, {2ul * gemm.x.stride}, {64, tokens});
    p.stages = (inputs + 63) / 64;
    emulator::Grid grid{(shape.outputs + tile - 1) / tile * shape.parts, 128 * (groups + 1), kWholeRoom, shape.order};
    grid.cluster = shape.parts;
    grid.predecessor = gemm.come_late();
    emulator::launch(grid, [&] { epilogues[static_cast<int>(shape.epilogue)](p); });
    gemm.check(words("%ux%u", groups, tokens).c_str());
}

#define CLUSTER(groups, tokens) \
    { linear_stream_cluster_##groups##x##tokens, linear_gated_cluster_##groups##x##tokens, linear_add_norm_cluster_##groups##x##tokens }

}  // namespace

int main() {
    constexpr Epilogue kStore = Epilogue::kStore, kGated = Epilogue::kGated, kAddNorm = Epilogue::kAddNorm;
    void (*const one_16[3])(const LinearParams) = CLUSTER(1, 16);
    void (*const two_32[3])(const LinearParams) = CLUSTER(2, 32);
    void (*const three_64[3])(const LinearParams) = CLUSTER(3, 64);
    void (*const one_128[3])(const LinearParams) = CLUSTER(1, 128);
    void (*const three_128[3])(const LinearParams) = CLUSTER(3, 128);
    // Splits of different sizes, rows that some blocks have none of, tiles that are not full, rings that wrap.
    const GemmCase small[] = {
        {16, 128, 512, Order::kForward, kStore, 4, true},
        {3, 72, 320, Order::kBackward, kStore, 8, false, true},
        {13, 120, 640, Order::kShuffled, kAddNorm, 4},
        {9, 96, 200, Order::kShuffled, kGated, 2, true, true, true},
        {16, 64, 2048, Order::kBackward, kAddNorm, 1, true},
        {11, 68, 192, Order::kForward, kStore, 1, false, false, false, true},
    };
    for (const GemmCase& shape : small) check(shape, 1, 16, one_16);
    check({32, 256, 384, Order::kShuffled, kAddNorm, 2, true}, 2, 32, two_32);
    check({20, 144, 256, Order::kBackward, kGated, 4, false, true}, 2, 32, two_32);
    check({64, 200, 256, Order::kForward, kAddNorm, 2}, 3, 64, three_64);
    check({37, 136, 320, Order::kBackward, kStore, 4, true}, 3, 64, three_64);
    check({50, 384, 192, Order::kShuffled, kGated, 1, true, true}, 3, 64, three_64);
    check({64, 208, 128, Order::kForward, kGated, 1, false, false, true}, 3, 64, three_64);
    check({40, 192, 256, Order::kBackward, kGated, 2, false, true}, 3, 64, three_64);
    check({100, 64, 256, Order::kShuffled, kStore, 2, true, true}, 1, 128, one_128);
    // Sums and those of others take most of the ring.
    for (const Order order : {Order::kForward, Order::kBackward, Order::kShuffled}) {
        check({128, 192, 1024, order, kStore, 8}, 3, 128, three_128);
    }
}
