// Attention of few new tokens over pages, beside loops in double precision.
#include "attended.h"
#include "stream_batch.h"

namespace {

using emulator::Order;

constexpr Order kOrders[] = {Order::kForward, Order::kBackward, Order::kShuffled};

// New keys and values are in their slots, and nothing else has changed.
double check_stored(const StreamBatch& before, const StreamBatch& after) {
    const BatchShape& shape = before.shape;
    const Expected expected{before};
    StreamBatch made = before;
    double worst = 0;
    for (int row = 0; shape.rotates() && row < shape.rows(); ++row) {
        const int slot = before.slots[row];
        for (int head = 0; head < shape.kv_heads; ++head) {
            const int first = head * shape.dim;
            worst = std::max(worst, distance(elements(after.keys, slot, first, shape.dim), expected.key(row, head)));
            worst = std::max(worst, distance(elements(after.values, slot, first, shape.dim), expected.value(row, head)));
        }
        for (int i = 0; i < shape.kv_width(); ++i) {
            made.keys.set(slot, i, after.keys.at(slot, i));
            made.values.set(slot, i, after.values.at(slot, i));
        }
    }
    if (!(made.keys == after.keys && made.values == after.values)) report(shape.name(), false, "writes to other slots");
    return worst;
}

void check_arrivals(const std::string& name, const StreamBatch& after) {
    for (uint32_t count : after.arrivals) {
        if (count != 0) report(name, false, "leaves arrivals for the next one");
    }
}

// The same bits however the work is shared: any number of workers, any order, one block per SM or two.
void check_same(const StreamBatch& before, const StreamBatch& expected, uint32_t workers, Order order, bool alone) {
    if (alone && !before.shape.has_kernel_alone()) return;
    StreamBatch other = before;
    other.run(workers, order, alone);
    const bool same = other.out == expected.out && other.keys == expected.keys && other.values == expected.values;
    const std::string what = words("  by %u workers, order %d%s", workers, int(order), alone ? ", alone" : "");
    report(what, same, same ? "the same bits" : "other bits");
    check_arrivals(what, other);
}

StreamBatch check(const BatchShape& shape) {
    const StreamBatch before(shape);
    StreamBatch after = before;
    after.run();
    const std::string name = shape.name();
    const double stored = check_stored(before, after), found = check_results(after);
    if (!after.out.has_clean_gaps()) report(name, false, "writes past the ends of rows");
    check_arrivals(name, after);
    const bool right = stored < (shape.narrow ? kOfFloat8 : kOfBf16) && found < kOfSeveralBf16;
    report(name, right, words("errors at most %.1e, stored %.1e", found, stored));
    check_same(before, after, shape.workers, shape.order, true);
    return before;
}

// A row's result has the same bits for any number of blocks and any order of threads.
void check_sharing(BatchShape shape) {
    const StreamBatch before = check(shape);
    StreamBatch alone = before;
    alone.run(1);
    for (uint32_t workers : {2, 3, 5, 8}) {
        for (Order order : kOrders) {
            check_same(before, alone, workers, order, false);
            check_same(before, alone, workers, order, true);
        }
    }
}

// New tokens as the QKV GEMM left them: consecutive rows, short and long, are loaded ahead.
void check_fresh() {
    for (Order order : kOrders) {
        check({.lengths = {100, 1, 300, 129, 1, 1, 40, 384}, .group = 4, .order = order});
        check({.lengths = {1, 700, 1, 128, 257, 2}, .group = 6, .page = 8, .order = order, .narrow = true});
        check({.lengths = {130, 1, 1, 256, 16}, .kv_heads = 2, .group = 16, .page = 64, .workers = 2, .order = order});
        check({.lengths = {17, 256, 1, 130}, .group = 12, .page = 8, .order = order, .narrow = true, .norms = Norms::kBf16});
        // More heads than columns: a row is opened once for each column block, never ahead.
        check({.lengths = {200, 1, 129}, .group = 20, .order = order});
    }
    check({.lengths = {1}});
    // Rings of eight buffers wrap at other units than those of six.
    check({.lengths = {1536, 130, 700}, .group = 6, .page = 64});
    // Halves loaded by swizzle atoms: of one position, of all but some, and with a row after them.
    check({.lengths = {57, 65, 120, 128, 184, 200, 1, 8}, .group = 4, .page = 64, .workers = 2});
    check({.lengths = {57, 65, 121, 129, 184, 193}, .group = 12, .page = 64, .order = Order::kBackward, .narrow = true});
    check({.lengths = {300, 1, 129, 640}, .kv_heads = 2, .group = 12, .page = 64, .workers = 2, .order = Order::kShuffled});
    check({.lengths = {128, 128, 128}, .norms = Norms::kNone});
    check({.lengths = {1, 1, 1, 1, 1, 1, 1, 1, 1}, .kv_heads = 2, .workers = 4, .order = Order::kShuffled, .norms = Norms::kBf16});
    check({.lengths = {90, 2000, 3}, .group = 24, .page = 64, .order = Order::kBackward, .narrow = true, .norms = Norms::kNone});
    // More rows than lanes of the warp that finds shares.
    check({.lengths = std::vector<int>(70, 20), .group = 4, .page = 8, .workers = 3, .order = Order::kShuffled});
    for (bool many : {false, true}) {
        const int group = many ? 10 : 6;
        check({.lengths = {300, 1, 129, 40}, .group = group, .order = Order::kBackward, .dim = 64});
        check({.lengths = {300, 1, 129, 40}, .group = group, .page = 64, .order = Order::kShuffled, .dim = 256});
        check({.lengths = {300, 1, 129, 40}, .group = group, .page = 8, .workers = 2, .dim = 256, .narrow = true});
    }
}

// Windows, sinks and caps; invisible positions are NaN.
void check_limits() {
    check({.lengths = {500, 1, 140, 64}, .kv_heads = 2, .group = 4, .page = 8, .window = 20, .sinks = true});
    check({.lengths = {500, 1, 140, 64}, .group = 12, .order = Order::kShuffled, .narrow = true, .window = 100, .sinks = true});
    check({.lengths = {700, 130, 3}, .group = 6, .workers = 3, .narrow = true, .window = 128, .soft_cap = 2.0f});
    check({.lengths = {3000, 20}, .group = 16, .page = 64, .workers = 2, .window = 500, .sinks = true, .soft_cap = 3.0f});
    check({.lengths = {300, 200}, .group = 2, .stored = {5, 1}, .window = 130, .sinks = true});
    check({.lengths = {300, 200}, .group = 4, .page = 8, .narrow = true, .stored = {7, 3}, .window = 2, .soft_cap = 1.0f});
}

// Queries that come rotated, keys and values that come stored: any number of new tokens, heads of any size.
void check_rotated() {
    for (Order order : kOrders) {
        check({.lengths = {100, 1, 300, 129}, .group = 4, .workers = 2, .order = order, .stored = {1, 1, 3, 2}});
        check({.lengths = {260, 20}, .kv_heads = 2, .group = 3, .page = 8, .order = order, .narrow = true, .stored = {9, 20}});
    }
    check({.lengths = {140, 30}, .group = 16, .page = 64, .stored = {2, 30}});
    check({.lengths = {140, 30}, .group = 20, .narrow = true, .stored = {2, 1}});
    check({.lengths = {140, 300, 64}, .group = 2, .dim = 64, .stored = {13, 1, 4}});
    check({.lengths = {140, 300, 64}, .group = 5, .workers = 2, .dim = 256, .stored = {2, 1, 2}});
    // Heads that fill a part of what the kernel has.
    check({.lengths = {140, 300, 64}, .group = 4, .dim = 80, .stored = {2, 1, 2}});
    check({.lengths = {140, 300, 64}, .kv_heads = 2, .group = 4, .dim = 64, .narrow = true, .stored = {2, 1, 2}});
    // Rows of other kernels lie between.
    check({.lengths = {140, 300, 64, 50}, .group = 4, .workers = 2, .stored = {2, 3, 2, 1}, .few = 2});
    check({.lengths = {140, 300, 64, 50}, .group = 4, .workers = 2, .narrow = true, .stored = {2, 1, 2, 1}, .elsewhere = 1});
    check({.lengths = {140, 300}, .group = 4, .workers = 2, .stored = {2, 3}, .few = 1});
}

// Rows that blocks share: some of the first and last of a share, and one with chunks of several units.
void check_shared_rows() {
    check_sharing({.lengths = {900, 5, 700}, .group = 4, .workers = 4});
    check_sharing({.lengths = {1500}, .kv_heads = 2, .group = 6, .page = 64, .workers = 3, .narrow = true, .sinks = true});
    check_sharing({.lengths = {700, 300}, .group = 16, .page = 8, .workers = 3, .stored = {3, 1}, .window = 600});
    check({.lengths = {5000, 1, 2500}, .group = 2, .page = 64, .workers = 5, .order = Order::kShuffled});
    check({.lengths = {1000, 1, 300}, .group = 4, .workers = 6, .order = Order::kBackward, .dim = 256});
    check({.lengths = {1000, 1, 300}, .group = 4, .page = 8, .workers = 6, .order = Order::kShuffled, .dim = 64});
    // Fewer units than workers.
    check({.lengths = {200, 1}, .group = 4, .workers = 7, .order = Order::kShuffled});
}

// Random lengths around the borders of tiles, halves and units.
void check_any(int count) {
    std::mt19937& random = random_numbers().words;
    const auto one_of = [&](std::vector<int> few) { return few[random() % few.size()]; };
    for (int i = 0; i < count; ++i) {
        BatchShape shape{};
        const int rows = 1 + random() % 9;
        for (int row = 0; row < rows; ++row) {
            shape.lengths.push_back(std::max(1, one_of({0, 16, 64, 128, 128, 256, 384, 500}) + int(random() % 5) - 2));
        }
        shape.kv_heads = one_of({1, 1, 2});
        shape.group = one_of({1, 4, 6, 8, 12});
        shape.page = one_of({8, 16, 24, 64});
        shape.workers = one_of({1, 1, 2, 3, 5});
        shape.order = kOrders[i % 3];
        shape.narrow = random() % 2;
        if (random() % 4 == 0) shape.window = one_of({1, 30, 128, 200});
        check(shape);
    }
}

// Where every worker has whole rows, the same number for each: rows and cuts, by worker.
void check_plan(const char* name, const std::vector<int>& lengths, uint32_t workers, bool whole) {
    StreamBatch batch({.lengths = lengths, .group = 4, .page = 64});
    StreamParams params = batch.kernel_params();
    batch.share(params.attend, workers);
    batch.plan(params, Order::kForward);
    const uint32_t each = lengths.size() / workers;
    bool found = true;
    for (uint32_t worker = 0; worker < workers; ++worker) {
        const StreamPlan& plan = batch.plans[worker];
        found &= plan.row == worker * each && plan.begin == plan.origin;
    }
    report(words("plan of %s by %u workers", name, workers), found == whole, found ? "whole rows" : "rows are cut");
}

// Rows are cut only where the excess of the largest share takes longer than that.
void check_plans() {
    std::vector<int> close(32, 1537), far(32, 1000), alone{700, 900};
    std::fill(close.begin() + 16, close.end(), 1500);
    std::fill(far.begin(), far.begin() + 8, 2000);
    check_plan("close lengths", close, 4, true);
    check_plan("lengths far apart", far, 4, false);
    check_plan("a row each", alone, 2, true);
    check_plan("rows of one length", std::vector<int>(6, 130), 3, true);
    check_plan("no even number of rows", {1500, 1500, 1500}, 2, false);
    // Too many to keep each of them.
    check_plan("many rows", std::vector<int>(512, 100), 4, true);
}

}  // namespace

int main() {
    check_plans();
    check_fresh();
    check_limits();
    check_rotated();
    check_shared_rows();
    check_any(40);
}
