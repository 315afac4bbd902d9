// Attention of few new tokens by the kernel for any shape, with as much shared memory as Hopper gives and with less.
#include "attended.h"

#include "attend_split.cu"
#include "attend_split_small.cu"

namespace {

using emulator::Order;

constexpr Order kOrders[] = {Order::kForward, Order::kBackward, Order::kShuffled};

using Kernel = void (*)(AttendParams);

struct Choice {
    Kernel kernel;
    uint32_t room;
};

Choice choose(const BatchShape& shape, bool small) {
    const bool many = shape.columns() == 16;
    const auto of = [&](Kernel few_bf16, Kernel many_bf16, Kernel few_fp8, Kernel many_fp8) {
        return shape.narrow ? (many ? many_fp8 : few_fp8) : many ? many_bf16 : few_bf16;
    };
    if (shape.dim <= 64) {
        return small ? Choice{of(attend_split_64_8_bf16_small, attend_split_64_16_bf16_small, attend_split_64_8_fp8_small,
                                 attend_split_64_16_fp8_small), kSmallRoom}
                     : Choice{of(attend_split_64_8_bf16, attend_split_64_16_bf16, attend_split_64_8_fp8, attend_split_64_16_fp8),
                              kHalfRoom};
    }
    if (shape.dim <= 128) {
        return small ? Choice{of(attend_split_128_8_bf16_small, attend_split_128_16_bf16_small, attend_split_128_8_fp8_small,
                                 attend_split_128_16_fp8_small), kSmallRoom}
                     : Choice{of(attend_split_128_8_bf16, attend_split_128_16_bf16, attend_split_128_8_fp8,
                                 attend_split_128_16_fp8), kHalfRoom};
    }
    return small ? Choice{of(attend_split_256_8_bf16_small, attend_split_256_16_bf16_small, attend_split_256_8_fp8_small,
                             attend_split_256_16_fp8_small), kMiddleRoom}
                 : Choice{of(attend_split_256_8_bf16, attend_split_256_16_bf16, attend_split_256_8_fp8, attend_split_256_16_fp8),
                          kWholeRoom};
}

// As launch/attend.rs finds it.
uint32_t page_shift(const BatchShape& shape) {
    const bool even = shape.page >= 16 && (shape.page & (shape.page - 1)) == 0 && shape.dim * (shape.narrow ? 1 : 2) % 16 == 0;
    return even ? __builtin_ctz(shape.page) : 0;
}

AttentionBatch run(const AttentionBatch& before, uint32_t workers, Order order, bool small) {
    AttentionBatch after = before;
    AttendParams params = after.attend_params();
    params.page_shift = page_shift(after.shape);
    after.share(params, workers);
    const Choice chosen = choose(after.shape, small);
    const uint32_t blocks = workers * after.shape.kv_heads;
    emulator::launch({blocks, kThreads, chosen.room, order, after.take_back()}, [&] { chosen.kernel(params); });
    for (uint32_t count : after.arrivals) {
        if (count != 0) report(after.shape.name(), false, "leaves arrivals for the next one");
    }
    if (!after.out.has_clean_gaps()) report(after.shape.name(), false, "writes past the ends of rows");
    return after;
}

// Results are right, and the same bits with any shared memory and any number of blocks.
void check(const BatchShape& shape) {
    const AttentionBatch before(shape), after = run(before, shape.workers, shape.order, false);
    const double error = check_results(after);
    report(shape.name(), error < kOfSeveralBf16, words("errors at most %.1e", error));
    for (const auto& [workers, order] : {std::pair{shape.workers, shape.order}, {1u, Order::kForward}, {3u, Order::kShuffled}}) {
        const bool same = run(before, workers, order, true).out == after.out;
        report(words("  less memory, %u workers, order %d", workers, int(order)), same, same ? "the same bits" : "other bits");
    }
}

}  // namespace

int main() {
    for (Order order : kOrders) {
        check({.lengths = {100, 1, 300, 129}, .group = 4, .workers = 2, .order = order, .stored = {1, 1, 3, 2}});
        check({.lengths = {260, 20}, .kv_heads = 2, .group = 3, .page = 1, .order = order, .narrow = true, .stored = {9, 20}});
    }
    check({.lengths = {1500, 30}, .group = 16, .page = 64, .workers = 3, .stored = {2, 30}, .sinks = true});
    check({.lengths = {140, 300, 64}, .group = 2, .page = 5, .dim = 64, .stored = {13, 1, 4}, .window = 30});
    check({.lengths = {140, 300, 64}, .group = 5, .workers = 2, .dim = 256, .stored = {2, 1, 2}, .soft_cap = 2.0f});
    check({.lengths = {140, 300, 64}, .group = 10, .dim = 256, .narrow = true, .stored = {2, 1, 2}});
    check({.lengths = {140, 300, 64}, .kv_heads = 2, .group = 4, .dim = 64, .narrow = true, .stored = {2, 1, 2}, .window = 100});
    // Heads that fill a part of what the kernel has, by vectors and not.
    check({.lengths = {140, 300, 64}, .group = 4, .dim = 80, .stored = {2, 1, 2}});
    check({.lengths = {140, 64}, .group = 4, .dim = 36, .stored = {2, 1}});
    // Rows of other kernels lie between.
    check({.lengths = {140, 300, 64, 50}, .group = 4, .workers = 2, .stored = {2, 3, 2, 1}, .few = 2});
    check({.lengths = {140, 300, 64, 50}, .group = 4, .workers = 2, .narrow = true, .stored = {2, 1, 2, 1}, .elsewhere = 1});
}
