// Chains of several links over several blocks: mail must give the bits that the links give one by one.
#include "chain_attention.h"

namespace {

using emulator::Order;

constexpr Order kOrders[] = {Order::kForward, Order::kBackward, Order::kShuffled};

// The end of a layer, then a layer of a model and its logits: queries, keys and values, attention, two ends of half layers
// with late norms, gates.
struct Layer {
    static constexpr int kInner = 384, kTokensOut = 100;

    Attention attention;
    int width;
    Matrix before, x, middle, gated, last, logits;
    ChainWeight begin, make_heads, join_heads, gate, down, head;
    Onward after_begin, after_attention, after_gates;

    Layer(const AttentionShape& shape, int of_width, Coding coding)
        : attention(shape),
          width(of_width),
          before(Matrix::random(shape.rows(), kInner)),
          x(shape.rows(), width),
          middle(shape.rows(), width),
          gated(shape.rows(), kInner),
          last(shape.rows(), width),
          logits(shape.rows(), kTokensOut),
          begin(width, kInner, coding),
          make_heads(shape.all_width(), width, coding),
          join_heads(width, shape.query_width(), coding),
          gate(2 * kInner, width, coding),
          down(width, kInner, coding),
          head(kTokensOut, width),
          after_begin(shape.rows(), width),
          after_attention(shape.rows(), width),
          after_gates(shape.rows(), width) {}

    std::vector<ChainLink> links() {
        std::vector<ChainLink> links{
            product_link(begin, LinkKind::kOnward, before, x),
            product_link(make_heads, LinkKind::kResults, x, attention.fresh),
            attention.link(),
            product_link(join_heads, LinkKind::kOnward, attention.out, middle),
            product_link(gate, LinkKind::kGated, middle, gated),
            product_link(down, LinkKind::kOnward, gated, last),
            product_link(head, LinkKind::kResults, last, logits),
        };
        after_begin.end(links[0]);
        after_begin.complete(links[1]);
        after_attention.end(links[3]);
        after_attention.complete(links[4]);
        after_gates.end(links[5]);
        after_gates.complete(links[6]);
        // All ends add to the same running sum.
        for (int i : {0, 3, 5}) links[i].linear.residual = residual().elements.data();
        return links;
    }

    Matrix& residual() { return after_begin.residual; }

    bool is_same(const Layer& other) const {
        return x == other.x && attention.fresh == other.attention.fresh && attention.keys == other.attention.keys &&
               attention.values == other.attention.values && attention.out == other.attention.out && middle == other.middle &&
               gated == other.gated && last == other.last && logits == other.logits &&
               after_begin.residual == other.after_begin.residual && after_begin.squares == other.after_begin.squares &&
               after_attention.squares == other.after_attention.squares && after_gates.squares == other.after_gates.squares;
    }
};

// Links in double precision, rounded where they round; attention is as the kernel left it and has tests of its own.
struct Expected {
    const Layer& start;
    Matrix residual;
    std::vector<double> factors, heads, logits;

    Expected(const Layer& of, const Matrix& attended) : start(of), residual(of.after_begin.residual), factors(residual.rows) {
        Matrix next(residual.rows, start.width), gated(residual.rows, Layer::kInner);
        end(start.begin.times(start.before), start.after_begin, next);
        heads = complete(start.make_heads.times(next));
        end(start.join_heads.times(attended), start.after_attention, next);
        const std::vector<double> sums = complete(start.gate.times(next));
        for (int row = 0; row < gated.rows; ++row) {
            const double *gates = &sums[row * 2 * Layer::kInner], *others = gates + Layer::kInner;
            for (int i = 0; i < Layer::kInner; ++i) gated.set(row, i, gates[i] / (1 + std::exp(-gates[i])) * others[i]);
        }
        end(start.down.times(gated), start.after_gates, next);
        logits = complete(start.head.times(next));
    }

private:
    void end(const std::vector<double>& sums, const Onward& onward, Matrix& next) {
        for (int row = 0; row < residual.rows; ++row) {
            double squares = 0;
            for (int i = 0; i < start.width; ++i) {
                const double sum = sums[row * start.width + i] + residual.at(row, i);
                squares += sum * sum;
                residual.set(row, i, sum);
                next.set(row, i, sum * onward.norm[i]);
            }
            factors[row] = 1 / std::sqrt(squares / start.width + 1e-6);
        }
    }

    std::vector<double> complete(std::vector<double> sums) const {
        const size_t each = sums.size() / residual.rows;
        for (size_t i = 0; i < sums.size(); ++i) sums[i] *= factors[i / each];
        return sums;
    }
};

void check(ChainMachine& machine, const AttentionShape& shape, int width, Coding coding = Coding::kBf16) {
    const Layer start(shape, width, coding);
    Layer one_by_one = start;
    for (const ChainLink& link : one_by_one.links()) machine.run({link}, 2);
    const std::string name = words("a layer of width %d, %s", width, shape.name().c_str());
    const Expected expected(start, one_by_one.attention.out);
    report_close(name + ", heads", one_by_one.attention.fresh.numbers(), expected.heads, kOfSeveralBf16);
    report_close(name + ", logits", one_by_one.logits.numbers(), expected.logits, kOfSeveralBf16);
    for (uint32_t blocks = 1; blocks <= 4; ++blocks) {
        for (Order order : kOrders) {
            Layer chained = start;
            std::vector<ChainLink> links = chained.links(), head;
            // The head is of bf16, which no kernel runs together with others.
            if (coding != Coding::kBf16) head = {links.back()};
            if (!head.empty()) links.pop_back();
            machine.run(links, blocks, order);
            if (!head.empty()) machine.run(head, blocks, order);
            const bool same = chained.is_same(one_by_one);
            const std::string what = words("  as one chain of %u blocks, order %d", blocks, int(order));
            report(what, same, same ? "the same bits" : "other bits");
        }
    }
}

}  // namespace

int main() {
    ChainMachine machine;
    check(machine, {{70}, 2, 4, 16, 3, true}, 192);
    // Heads that need nothing of the last block: attention hands on results while that one still reads the link before.
    check(machine, {{5}, 4, 1, 16, 1, false}, 192);
    check(machine, {{33, 100}, 1, 8, 32, 4, false}, 576);
    // Eight-bit floats and folded ones, the head aside.
    check(machine, {{70}, 2, 4, 16, 3, true, true}, 256, Coding::kScaledRows);
    check(machine, {{33, 100}, 1, 8, 32, 4, false}, 576, Coding::kFolded);
    check(machine, {{70}, 1, 4, 16, 3, true, true}, 192, Coding::kFolded);
    check(machine, {{33, 100}, 1, 8, 32, 4, false}, 640, Coding::kBlocks);
}
