// Chains of several links over several blocks: mail must give the bits that the links give one by one.
#include "chain_attention.h"

namespace {

using emulator::Order;

constexpr Order kOrders[] = {Order::kForward, Order::kBackward, Order::kShuffled};

// A layer of a model and its logits: queries, keys and values, attention, two ends of half layers with late norms, gates.
struct Layer {
    static constexpr int kInner = 320, kTokensOut = 100;

    Attention attention;
    int width;
    Matrix x, middle, gated, last, logits;
    ChainWeight make_heads, join_heads, gate, down, head;
    Onward after_attention, after_gates;

    Layer(const AttentionShape& shape, int of_width)
        : attention(shape),
          width(of_width),
          x(Matrix::random(shape.rows(), width)),
          middle(shape.rows(), width),
          gated(shape.rows(), kInner),
          last(shape.rows(), width),
          logits(shape.rows(), kTokensOut),
          make_heads(shape.all_width(), width),
          join_heads(width, shape.query_width()),
          gate(2 * kInner, width),
          down(width, kInner),
          head(kTokensOut, width),
          after_attention(shape.rows(), width),
          after_gates(shape.rows(), width) {}

    std::vector<ChainLink> links() {
        std::vector<ChainLink> links{
            product_link(make_heads, LinkKind::kResults, x, attention.fresh),
            attention.link(),
            product_link(join_heads, LinkKind::kOnward, attention.out, middle),
            product_link(gate, LinkKind::kGated, middle, gated),
            product_link(down, LinkKind::kOnward, gated, last),
            product_link(head, LinkKind::kResults, last, logits),
        };
        after_attention.end(links[2]);
        after_attention.complete(links[3]);
        // The end of a layer adds to the same running sum.
        after_gates.end(links[4]);
        links[4].linear.residual = after_attention.residual.elements.data();
        after_gates.complete(links[5]);
        return links;
    }

    bool is_same(const Layer& other) const {
        return attention.fresh == other.attention.fresh && attention.keys == other.attention.keys &&
               attention.values == other.attention.values && attention.out == other.attention.out && middle == other.middle &&
               gated == other.gated && last == other.last && logits == other.logits &&
               after_attention.residual == other.after_attention.residual &&
               after_attention.squares == other.after_attention.squares && after_gates.squares == other.after_gates.squares;
    }
};

// Logits in double precision, from what attention left: rounded where links round.
std::vector<double> expected_logits(const Layer& start, const Layer& done) {
    const int rows = start.x.rows, width = start.width;
    Matrix residual = start.after_attention.residual, middle(rows, width), gated(rows, Layer::kInner), last(rows, width);
    std::vector<double> factors(rows);
    const auto end = [&](const std::vector<double>& sums, const Onward& onward, Matrix& next) {
        for (int row = 0; row < rows; ++row) {
            double squares = 0;
            for (int i = 0; i < width; ++i) {
                const double sum = sums[row * width + i] + residual.at(row, i);
                squares += sum * sum;
                residual.set(row, i, sum);
                next.set(row, i, sum * onward.norm[i]);
            }
            factors[row] = 1 / std::sqrt(squares / width + 1e-6);
        }
    };
    end(start.join_heads.times(done.attention.out), start.after_attention, middle);
    const std::vector<double> gates = start.gate.times(middle);
    for (int row = 0; row < rows; ++row) {
        const double* sums = &gates[row * 2 * Layer::kInner];
        for (int i = 0; i < Layer::kInner; ++i) {
            const double gate = sums[i] * factors[row];
            gated.set(row, i, gate / (1 + std::exp(-gate)) * sums[Layer::kInner + i] * factors[row]);
        }
    }
    end(start.down.times(gated), start.after_gates, last);
    std::vector<double> logits = start.head.times(last);
    for (size_t i = 0; i < logits.size(); ++i) logits[i] *= factors[i / Layer::kTokensOut];
    return logits;
}

void check(ChainMachine& machine, const AttentionShape& shape, int width) {
    const Layer start(shape, width);
    Layer one_by_one = start;
    for (const ChainLink& link : one_by_one.links()) machine.run({link}, 2);
    const std::string name = words("a layer of width %d, %s", width, shape.name().c_str());
    report_close(name, one_by_one.attention.fresh.numbers(), start.make_heads.times(start.x), kOfBf16);
    report_close(name + ", logits", one_by_one.logits.numbers(), expected_logits(start, one_by_one), kOfSeveralBf16);
    for (uint32_t blocks = 1; blocks <= 4; ++blocks) {
        for (Order order : kOrders) {
            Layer chained = start;
            machine.run(chained.links(), blocks, order);
            const bool same = chained.is_same(one_by_one);
            report(words("  as one chain of %u blocks, order %d", blocks, int(order)), same, same ? "the same bits" : "other bits");
        }
    }
}

}  // namespace

int main() {
    ChainMachine machine;
    check(machine, {{70}, 2, 4, 16, 3, true}, 192);
    check(machine, {{33, 100}, 1, 8, 32, 4, false}, 576);
}
