// Small tables of integers: how often rows produced tokens.
#include "case.h"

#include "gather.cu"

namespace {

using emulator::Order;

constexpr uint32_t kMost = 0xffff;

// Some rows begin anew, then `count` tokens are counted; many of them are the same few of the same row.
void check_counts(uint32_t rows, uint32_t vocabulary, uint32_t count, uint32_t threads, Order order) {
    std::vector<uint16_t> counts, expected;
    for (uint32_t i = 0; i < rows * vocabulary; ++i) counts.push_back(i % 5 ? i % 3 : kMost - i % 4);
    expected = counts;
    std::vector<uint32_t> clear, of_rows, tokens;
    for (uint32_t row = 1; row < rows; row += 3) clear.push_back(row);
    for (uint32_t i = 0; i < count; ++i) {
        of_rows.push_back(i % 7 ? random_numbers().words() % rows : 0);
        tokens.push_back(i % 2 ? random_numbers().words() % vocabulary : vocabulary - 1);
    }
    for (uint32_t row : clear) std::fill_n(expected.begin() + row * vocabulary, vocabulary, 0);
    for (uint32_t i = 0; i < count; ++i) {
        uint16_t& one = expected[of_rows[i] * vocabulary + tokens[i]];
        if (one < kMost) ++one;
    }
    const CountParams p{clear.data(), of_rows.data(), tokens.data(), counts.data(), vocabulary, uint32_t(clear.size()), count};
    if (!clear.empty()) emulator::launch({uint32_t(clear.size()), 64, 0, order}, [&] { clear_counts(p); });
    emulator::launch({(count + threads - 1) / threads, threads, 0, order}, [&] { count_tokens(p); });
    report(words("counts of %u tokens of %u rows by blocks of %u", count, rows, threads), counts == expected, "every count");
}

}  // namespace

int main() {
    for (Order order : {Order::kForward, Order::kBackward, Order::kShuffled}) {
        check_counts(1, 1, 300, 64, order);
        check_counts(5, 40, 500, 128, order);
        check_counts(3, 100, 33, 256, order);
    }
    check_counts(2, 9, 1, 32, Order::kForward);
}
