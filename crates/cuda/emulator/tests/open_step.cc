// The kernel that opens a step, beside those that it fuses: tokens, rows of a table, their norm, and plans.
#include "stream_batch.h"

#include "norm.cu"
#include "open_step.cu"

namespace {

using emulator::Order;

constexpr int kVocabulary = 50;
constexpr uint32_t kLast = 1u << 31;
constexpr float kEps = 1e-5f;

struct Case {
    // Sequences for which attention is planned, with one new token each; none: nothing is planned.
    std::vector<int> lengths;
    int tokens;
    int width;
    bool wide_norm;
    uint32_t workers = 3;

    std::string name(Order order) const {
        return words("%d tokens of %d, norm of %s, %zu sequences planned for %u workers, order %d", tokens, width,
                     wide_norm ? "floats" : "bf16", lengths.size(), workers, int(order));
    }
};

// Memory of a step, with gaps after rows.
struct Opened {
    std::vector<uint32_t> ids;
    Matrix residual;
    Matrix normed;
    std::vector<StreamPlan> plans;

    explicit Opened(const Case& c) : ids(c.tokens, 7777), residual(c.tokens, c.width, 8), normed(c.tokens, c.width, 16) {}

    bool operator==(const Opened& other) const {
        const size_t bytes = plans.size() * sizeof(StreamPlan);
        return ids == other.ids && residual == other.residual && normed == other.normed && plans.size() == other.plans.size() &&
               memcmp(plans.data(), other.plans.data(), bytes) == 0;
    }
};

struct Given {
    Matrix table;
    std::vector<uint32_t> staged;
    std::vector<uint32_t> last;
    std::vector<float> norm;
    std::vector<__nv_bfloat16> short_norm;

    explicit Given(const Case& c) : table(Matrix::random(kVocabulary, c.width, 24)) {
        std::mt19937& random = random_numbers().words;
        for (int i = 0; i < 20; ++i) last.push_back(random() % kVocabulary);
        for (int i = 0; i < c.tokens; ++i) staged.push_back(i % 3 == 0 ? random() % kVocabulary : kLast + random() % last.size());
        for (int i = 0; i < c.width; ++i) {
            short_norm.push_back(__float2bfloat16(1.0f + 0.2f * random_numbers().number()));
            norm.push_back(__bfloat162float(short_norm.back()));
        }
    }

    uint32_t token(int number) const { return staged[number] & kLast ? last[staged[number] - kLast] : staged[number]; }
};

OpenParams kernel_params(const Case& c, const Given& given, Opened& opened) {
    OpenParams p{};
    p.tokens = {given.staged.data(), given.last.data(), opened.ids.data(), uint32_t(c.tokens)};
    p.table = given.table.elements.data();
    p.residual = opened.residual.elements.data();
    p.norm = c.wide_norm ? static_cast<const void*>(given.norm.data()) : given.short_norm.data();
    p.out = opened.normed.elements.data();
    p.table_stride = given.table.stride;
    p.residual_stride = opened.residual.stride;
    p.out_stride = opened.normed.stride;
    p.width = c.width;
    p.wide_norm = c.wide_norm;
    p.eps = kEps;
    return p;
}

// What the separate kernels give; rows are gathered by hand.
Opened expected(const Case& c, const Given& given, const OpenParams& params) {
    Opened opened(c);
    for (int row = 0; row < c.tokens; ++row) {
        opened.ids[row] = given.token(row);
        for (int i = 0; i < c.width; ++i) opened.residual.set(row, i, given.table.at(given.token(row), i));
    }
    NormParams p{};
    p.x = opened.residual.elements.data();
    p.weight = params.norm;
    p.out = opened.normed.elements.data();
    p.x_stride = opened.residual.stride;
    p.out_stride = opened.normed.stride;
    p.width = c.width;
    p.rows = c.tokens;
    p.wide_weight = c.wide_norm;
    p.vectors = 1;
    p.eps = kEps;
    const uint32_t threads = (c.width / 8 + 31) / 32 * 32;
    emulator::launch({uint32_t(c.tokens), threads, 0, Order::kForward}, [&] { rms_norm_short(p); });
    return opened;
}

void check_norm(const std::string& name, const Case& c, const Given& given, const Opened& opened) {
    std::vector<double> wanted;
    for (int row = 0; row < c.tokens; ++row) {
        double squares = 0;
        for (int i = 0; i < c.width; ++i) squares += std::pow(given.table.at(given.token(row), i), 2);
        const double factor = 1 / std::sqrt(squares / c.width + kEps);
        for (int i = 0; i < c.width; ++i) wanted.push_back(given.table.at(given.token(row), i) * factor * given.norm[i]);
    }
    report_close(name, opened.normed.numbers(), wanted, kOfBf16);
}

void check(const Case& c) {
    const Given given(c);
    StreamBatch batch({.lengths = c.lengths.empty() ? std::vector<int>{1} : c.lengths, .kv_heads = 2, .group = 6, .page = 64});
    StreamParams attends = batch.kernel_params();
    attends.attend.workers = c.workers;
    batch.plan(attends, Order::kForward);
    for (Order order : {Order::kForward, Order::kBackward, Order::kShuffled}) {
        Opened opened(c);
        OpenParams params = kernel_params(c, given, opened);
        Opened wanted = expected(c, given, params);
        if (!c.lengths.empty()) {
            wanted.plans = batch.plans;
            StreamPlan unplanned;
            memset(&unplanned, emulator::kPoison, sizeof unplanned);
            opened.plans.assign(c.workers, unplanned);
            params.plan = batch.to_plan(attends);
            params.plan.plans = opened.plans.data();
            params.planning = StreamBatch::planning_blocks(attends);
        }
        emulator::launch({params.planning + c.tokens, kPlanThreads, 0, order}, [&] { open_step(params); });
        check_norm(c.name(order), c, given, opened);
        const bool same = opened == wanted;
        report("  the same bits as one kernel after the other", same, same ? "yes" : "no");
    }
}

}  // namespace

int main() {
    check({.lengths = {300, 1, 129, 640}, .tokens = 4, .width = 1536, .wide_norm = true});
    check({.lengths = {1500, 20}, .tokens = 2, .width = 4096, .wide_norm = false, .workers = 20});
    check({.lengths = std::vector<int>(70, 200), .tokens = 70, .width = 64, .wide_norm = true, .workers = 33});
    // The longest rows, and vectors that do not fill a warp.
    check({.lengths = {}, .tokens = 3, .width = 8192, .wide_norm = true});
    check({.lengths = {5, 5}, .tokens = 2, .width = 2056, .wide_norm = false});
    check({.lengths = {}, .tokens = 1, .width = 8, .wide_norm = true});
}
