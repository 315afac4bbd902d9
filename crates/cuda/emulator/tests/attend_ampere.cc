// Attention of many new tokens without Hopper's instructions, beside loops in double precision.
#include "attended.h"

#include "attend_ampere.cu"

namespace {

using emulator::Order;

// Keys and values as `attend_widen` leaves them: rows have page offsets, except for the one that is elsewhere.
struct Widened {
    Matrix keys, values;
    std::vector<uint32_t> homes;

    explicit Widened(const AttentionBatch& from)
        : keys(from.shape.rows() * (from.shape.longest() / kWidenedPage + 1) * kWidenedPage, from.shape.kv_width()), values(keys) {
        uint32_t next = 0;
        for (int row = 0; row < from.shape.rows(); ++row) {
            const uint32_t length = from.lengths[row], old = length - from.shape.fresh(row);
            const uint32_t oldest = old + 1 > from.shape.window ? old + 1 - from.shape.window : 0, first = oldest / kWidenedPage;
            const bool lives_here = row != from.shape.elsewhere;
            homes.push_back(lives_here ? next - first : kNowhere);
            for (uint32_t position = oldest; lives_here && position < length; ++position) {
                const uint32_t slot = (next + position / kWidenedPage - first) * kWidenedPage + position % kWidenedPage;
                for (int i = 0; i < keys.columns; ++i) {
                    keys.set(slot, i, from.keys.at(from.slot(row, position), i));
                    values.set(slot, i, from.values.at(from.slot(row, position), i));
                }
            }
            if (lives_here) next += (length + kWidenedPage - 1) / kWidenedPage - first;
        }
    }

    void fill(AmpereTilesParams& params) const {
        params.widened = 1;
        AttendParams& a = params.attend;
        a.keys = keys.elements.data();
        a.values = values.elements.data();
        a.table_rows = homes.data();
        a.table_stride = 1;
        a.page_size = kWidenedPage;
        a.homes = nullptr;
    }
};

// Sequences of up to `few` new tokens belong to other kernels.
double check_tiles(const AttentionBatch& after, uint32_t few) {
    double worst = 0;
    const Expected expected{after};
    for (int row = 0; row < after.shape.rows(); ++row) {
        for (int i = 0; i < after.shape.fresh(row); ++i) {
            for (int head = 0; head < after.shape.heads(); ++head) {
                const auto found = elements(after.out, after.starts[row] + i, head * after.shape.dim, after.shape.dim);
                if (uint32_t(after.shape.fresh(row)) > few && row != after.shape.elsewhere) {
                    worst = std::max(worst, distance(found, expected.attended(row, i, head)));
                } else if (std::any_of(found.begin(), found.end(), [](float x) { return x == x; })) {
                    report(after.shape.name(), false, words("writes row %d, which is not its own", row));
                }
            }
        }
    }
    return worst;
}

// As launch/attend/ampere.rs lays out blocks.
void check(const BatchShape& shape, uint32_t few = 0, bool widened = false) {
    AttentionBatch batch(shape);
    const Widened wide(batch);
    AmpereTilesParams params{batch.attend_params(), uint32_t(128 / shape.group), 0};
    params.attend.few = few;
    if (widened) wide.fill(params);
    const uint32_t tiles = token_count(shape) / params.tokens + shape.rows();
    const uint32_t room = AmpereRows<128>::kBytes / (shape.dim <= 64 ? 2 : 1);
    const auto kernel = shape.dim <= 64 ? attend_ampere_64 : attend_ampere_128;
    emulator::launch({tiles * shape.kv_heads, kTileThreads, room, shape.order, batch.take_back()}, [&] { kernel(params); });
    if (!batch.out.has_clean_gaps()) report(shape.name(), false, "writes past the ends of rows");
    const double error = check_tiles(batch, few);
    report(shape.name() + (widened ? ", widened" : ""), error < kOfSeveralBf16, words("errors at most %.1e", error));
}

}  // namespace

int main() {
    for (Order order : {Order::kForward, Order::kBackward, Order::kShuffled}) {
        check({.lengths = {100, 3, 64}, .group = 4, .order = order, .stored = {100, 3, 40}});
        check({.lengths = {150, 65, 200}, .kv_heads = 2, .group = 7, .page = 5, .order = order, .dim = 64, .stored = {20, 65, 7}});
    }
    // One token of the last tile, one key of the last block.
    check({.lengths = {129, 65}, .page = 64, .stored = {129, 65}});
    // Heads that fill a part of what the kernel has.
    check({.lengths = {70, 90}, .group = 2, .dim = 80, .stored = {70, 8}});
    check({.lengths = {70}, .group = 2, .page = 1, .dim = 40, .stored = {33}});
    // Windows, sinks and caps; invisible positions are NaN.
    check({.lengths = {300, 20}, .kv_heads = 2, .group = 4, .page = 8, .stored = {60, 20}, .window = 20, .sinks = true});
    check({.lengths = {260}, .group = 1, .stored = {260}, .window = 64, .soft_cap = 2.0f});
    check({.lengths = {40}, .group = 128, .dim = 64, .stored = {3}, .sinks = true});
    // Rows of other kernels lie between, and more rows than a warp has lanes.
    check({.lengths = {40, 50, 60, 30}, .group = 4, .stored = {4, 5, 2, 30}}, 4);
    std::vector<int> lengths(70, 3), fresh(70, 1);
    lengths[33] = 20, fresh[33] = 18, lengths[69] = 80, fresh[69] = 40;
    check({.lengths = lengths, .group = 4, .page = 8, .stored = fresh}, 1);
    // Widened from e4m3; the second row did not fit.
    check({.lengths = {300, 90, 140}, .kv_heads = 2, .group = 4, .stored = {50, 70, 140}, .elsewhere = 1}, 0, true);
    check({.lengths = {700, 140}, .group = 4, .dim = 64, .stored = {50, 20}, .window = 100}, 0, true);
}
