// Drawing tokens and their log-probabilities, beside sorting whole rows in double precision.
#include <algorithm>
#include <numeric>

#include "case.h"
#include "sample.cu"

namespace {

using emulator::Order;

constexpr SampleParams kLargest{0, 0.0f, 1.0f, 0.0f, kAll, 0.0f, 0.0f, 1.0f, 0};

std::vector<SampleParams> ways() {
    SampleParams plain = kLargest;
    plain.seed = 7;
    plain.temperature = 1.0f;
    std::vector<SampleParams> all{kLargest, plain};
    const auto add = [&](float temperature, uint32_t top_k, float top_p, float min_p) {
        SampleParams way = plain;
        way.temperature = temperature;
        way.top_k = top_k;
        way.top_p = top_p;
        way.min_p = min_p;
        all.push_back(way);
    };
    add(0.3f, kAll, 1.0f, 0.0f);
    for (uint32_t top_k : {1u, 40u, 5000u}) add(1.7f, top_k, 1.0f, 0.0f);
    for (float top_p : {0.0f, 0.1f, 0.9f, 0.999f}) add(1.0f, kAll, top_p, 0.0f);
    for (float min_p : {0.05f, 1.0f}) add(1.0f, kAll, 1.0f, min_p);
    add(0.8f, 50, 0.95f, 0.02f);
    return all;
}

// Sharp, flat, with many equal ones, with most of them forbidden, all equal.
float logit(int kind, uint32_t token) {
    const float number = random_numbers().number();
    switch (kind) {
        case 0: return 4.0f * number;
        case 1: return 0.01f * number;
        case 2: return std::round(2.0f * number);
        case 3: return token % 5 ? -INFINITY : number;
        default: return 0.0f;
    }
}

uint32_t largest(const std::vector<float>& values) {
    return std::max_element(values.begin(), values.end()) - values.begin();
}

uint32_t draw(const std::vector<float>& logits, const SampleParams& params, uint32_t position, double top_p) {
    if (params.temperature <= 0.0f) return largest(logits);
    const size_t count = logits.size();
    std::vector<float> scaled, noisy(count, -INFINITY);
    for (float value : logits) scaled.push_back(value / params.temperature);
    const float most = scaled[largest(scaled)];
    std::vector<uint32_t> order(count);
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) { return scaled[a] > scaled[b]; });
    double total = 0, before = 0;
    for (float value : scaled) total += std::exp(double(value) - most);
    for (size_t i = 0; i < std::min<size_t>(count, params.top_k); ++i) {
        const double weight = std::exp(double(scaled[order[i]]) - most);
        if (before >= top_p * total || weight < params.min_p) break;
        noisy[order[i]] = scaled[order[i]] + gumbel(params.seed, position, order[i]);
        before += weight;
    }
    return largest(noisy);
}

// Rows of one kind, each drawn in another way.
void check_draws(uint32_t vocabulary, int kind, uint32_t shares, Order order) {
    const std::vector<SampleParams> params = ways();
    const uint32_t rows = params.size(), segments = vocabulary / (4 * kFours * kThreads) + 1, at_once = 4;
    std::vector<float> logits;
    for (uint32_t i = 0; i < rows * vocabulary; ++i) logits.push_back(logit(kind, i % vocabulary));
    std::vector<uint32_t> positions(rows), table_rows(rows), out(rows, kAll), last(rows, kAll), arrivals(rows);
    for (uint32_t row = 0; row < rows; ++row) {
        positions[row] = 3 * row;
        table_rows[row] = rows - 1 - row;
    }
    std::vector<Best> found(rows * shares);
    std::vector<Segment> seen(rows * segments);
    for (uint32_t first = 0; first < rows; first += at_once) {
        SampleLaunch launch{&logits[first * vocabulary], &params[first], &positions[first], &table_rows[first], &out[first],
                            last.data(),                 found.data(),   arrivals.data(),   seen.data(),        vocabulary,
                            vocabulary,                  shares};
        emulator::launch({std::min(at_once, rows - first) * shares, kThreads, 0, order}, [&] { sample(launch); });
    }
    const std::string name = words("draws of %u tokens, kind %d, %u shares", vocabulary, kind, shares);
    for (uint32_t row = 0; row < rows; ++row) {
        const std::vector<float> own(&logits[row * vocabulary], &logits[row * vocabulary] + vocabulary);
        // Sums are rounded differently: where a token lies on the border of top-p, either is right.
        bool right = false;
        for (double slack : {0.0, -1e-5, 1e-5}) {
            const double top_p = params[row].top_p < 1.0f ? params[row].top_p + slack : 2.0;
            right |= out[row] == draw(own, params[row], positions[row], top_p);
        }
        right &= last[table_rows[row]] == out[row] && arrivals[row] == 0;
        if (!right) report(name, false, words("row %u draws %u", row, out[row]));
    }
    report(name, true, words("%u ways", rows));
}

void check_log_probs(uint32_t vocabulary, float temperature, Order order) {
    constexpr uint32_t kTargets = 3, kTop = 4;
    std::vector<float> logits, log_probs(kTargets, NAN), top_log_probs(kTop, NAN);
    for (uint32_t i = 0; i < vocabulary; ++i) logits.push_back(logit(i % 2 ? 0 : 2, i));
    const std::vector<uint32_t> targets{0, vocabulary - 1, vocabulary / 2};
    std::vector<uint32_t> top(kTop, kAll), ranked(vocabulary);
    LogProbsLaunch launch{logits.data(),        targets.data(), &temperature, log_probs.data(), top.data(),
                          top_log_probs.data(), vocabulary,     vocabulary,   kTargets,         kTop};
    emulator::launch({1, kThreads, 0, order}, [&] { ::log_probs(launch); });

    std::iota(ranked.begin(), ranked.end(), 0);
    std::stable_sort(ranked.begin(), ranked.end(), [&](uint32_t a, uint32_t b) { return logits[a] > logits[b]; });
    const double scale = temperature > 0.0f ? 1.0 / temperature : 1.0;
    double total = 0;
    for (float value : logits) total += std::exp(value * scale);
    std::vector<double> expected;
    std::vector<float> all = log_probs;
    all.insert(all.end(), top_log_probs.begin(), top_log_probs.end());
    for (uint32_t target : targets) expected.push_back(logits[target] * scale - std::log(total));
    for (uint32_t i = 0; i < kTop; ++i) expected.push_back(logits[ranked[i]] * scale - std::log(total));
    const std::string name = words("log-probabilities of %u tokens at temperature %.1f", vocabulary, temperature);
    if (!std::equal(top.begin(), top.end(), ranked.begin())) report(name, false, "other tokens are the most likely");
    report_close(name, all, expected, kOfFloats);
}

}  // namespace

int main() {
    check_draws(1, 0, 1, Order::kForward);
    check_draws(17, 4, 1, Order::kBackward);
    for (int kind = 0; kind < 5; ++kind) check_draws(301, kind, 1 + kind % 2, Order::kForward);
    // Two segments, and more likely tokens than one lists.
    check_draws(13000, 0, 2, Order::kBackward);
    check_draws(13000, 1, 2, Order::kShuffled);
    check_log_probs(2500, 0.7f, Order::kForward);
    check_log_probs(5, 0.0f, Order::kShuffled);
}
