// Decode attention as the only stage of a megakernel, beside loops in double precision.
#include "megakernel_attention.h"

namespace {

using emulator::Order;

// New keys and values as they must be in the cache, and what the cache has.
void check_stored(const Attention& attention, const std::string& name) {
    const AttentionShape& shape = attention.shape;
    std::vector<double> expected;
    std::vector<float> found;
    for (int row = 0; row < shape.rows(); ++row) {
        for (int head = 0; head < shape.kv_heads; ++head) {
            const int column = head * kHeadDim, key = shape.query_width() + column, value = key + shape.kv_width();
            const std::vector<double> turned = attention.turned(row, key, attention.key_norm);
            for (int i = 0; i < kHeadDim; ++i) {
                expected.push_back(turned[i]);
                found.push_back(attention.keys.at(attention.slots[row], column + i));
                expected.push_back(attention.fresh.at(row, value + i));
                found.push_back(attention.values.at(attention.slots[row], column + i));
            }
        }
    }
    report_close(name + ", stored", found, expected, shape.narrow ? kOfFloat8 : kOfBf16);
}

void check(MegakernelRun& machine, const AttentionShape& shape, uint32_t blocks, Order order, uint32_t least_room = 0) {
    Attention attention(shape);
    machine.run({attention.stage()}, blocks, order, least_room);
    const std::string name = words("%s, %u blocks, order %d", shape.name().c_str(), blocks, int(order));
    check_stored(attention, name);
    std::vector<double> expected;
    for (int row = 0; row < shape.rows(); ++row) {
        for (int head = 0; head < shape.kv_heads * shape.group; ++head) {
            for (double element : attention.attended(row, head)) expected.push_back(element);
        }
    }
    report_close(name, attention.out.numbers(), expected, kOfSeveralBf16);
    if (!attention.out.has_clean_gaps()) report(name, false, "writes past the ends of rows");
}

}  // namespace

int main() {
    MegakernelRun machine;
    check(machine, {{1}, 1, 1, 16, 1, true}, 1, Order::kForward);
    check(machine, {{32}, 2, 2, 32, 4, false}, 2, Order::kBackward);
    check(machine, {{33}, 2, 4, 64, 2, true}, 3, Order::kShuffled);
    check(machine, {{33, 1}, 1, 3, 48, 1, false}, 1, Order::kForward);
    check(machine, {{70, 129}, 2, 4, 16, 3, false}, 4, Order::kShuffled);
    check(machine, {{129}, 1, 5, 24, 1, true}, 2, Order::kForward);
    check(machine, {{200}, 1, 8, 32, 16, true}, 4, Order::kBackward);
    check(machine, {{200, 5}, 3, 7, 8, 2, true}, 3, Order::kForward);
    check(machine, {{1}, 1, 1, 16, 1, true, true}, 1, Order::kForward);
    check(machine, {{33}, 2, 4, 64, 2, true, true}, 3, Order::kBackward);
    check(machine, {{70, 129}, 2, 4, 16, 3, false, true}, 4, Order::kShuffled);
    check(machine, {{200, 32}, 1, 8, 8, 16, true, true}, 4, Order::kForward);
    check(machine, {{1000}, 1, 6, 32, 1, false, true}, 1, Order::kBackward);
    // More tiles in one split than the ring has.
    for (Order order : {Order::kForward, Order::kBackward, Order::kShuffled}) {
        check(machine, {{1000}, 1, 8, 16, 1, false}, 1, order);
        // The same with fewer ring tiles than warps, as beside long rows of x.
        check(machine, {{1000}, 1, 8, 16, 1, false}, 1, order, 100 << 10);
    }
}
