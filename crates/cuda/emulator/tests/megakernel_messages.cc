// Megakernels of several stages over several blocks: the same bits as the stages one by one.
#include "megakernel_attention.h"

namespace {

using emulator::Order;

constexpr Order kOrders[] = {Order::kForward, Order::kBackward, Order::kShuffled};

// A residual add, then a layer of a model and its logits: QKV, attention, two residual adds with deferred RMS scales, gates.
struct Layer {
    static constexpr int kInner = 384, kTokensOut = 100;

    Attention attention;
    int width;
    Matrix before, x, middle, gated, last, logits;
    StageWeight begin, make_heads, join_heads, gate, down, head;
    AddNorm after_begin, after_attention, after_gates;

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

    std::vector<Stage> stages() {
        std::vector<Stage> stages{
            gemm_stage(begin, StageKind::kAddNorm, before, x),
            gemm_stage(make_heads, StageKind::kStore, x, attention.fresh),
            attention.stage(),
            gemm_stage(join_heads, StageKind::kAddNorm, attention.out, middle),
            gemm_stage(gate, StageKind::kGated, middle, gated),
            gemm_stage(down, StageKind::kAddNorm, gated, last),
            gemm_stage(head, StageKind::kStore, last, logits),
        };
        after_begin.end(stages[0]);
        after_begin.complete(stages[1]);
        after_attention.end(stages[3]);
        after_attention.complete(stages[4]);
        after_gates.end(stages[5]);
        after_gates.complete(stages[6]);
        // All residual adds share one residual.
        for (int i : {0, 3, 5}) stages[i].linear.residual = residual().elements.data();
        return stages;
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

// The stages in double precision, rounded where they round; attention is as the kernel left it and has tests of its own.
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
    void end(const std::vector<double>& sums, const AddNorm& add_norm, Matrix& next) {
        for (int row = 0; row < residual.rows; ++row) {
            double squares = 0;
            for (int i = 0; i < start.width; ++i) {
                const double sum = sums[row * start.width + i] + residual.at(row, i);
                squares += sum * sum;
                residual.set(row, i, sum);
                next.set(row, i, sum * add_norm.norm[i]);
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

void check(MegakernelRun& machine, const AttentionShape& shape, int width, Coding coding = Coding::kBf16) {
    const Layer start(shape, width, coding);
    Layer one_by_one = start;
    for (const Stage& stage : one_by_one.stages()) machine.run({stage}, 2);
    const std::string name = words("a layer of width %d, %s", width, shape.name().c_str());
    const Expected expected(start, one_by_one.attention.out);
    report_close(name + ", heads", one_by_one.attention.fresh.numbers(), expected.heads, kOfSeveralBf16);
    report_close(name + ", logits", one_by_one.logits.numbers(), expected.logits, kOfSeveralBf16);
    for (uint32_t blocks = 1; blocks <= 4; ++blocks) {
        for (Order order : kOrders) {
            Layer fused = start;
            std::vector<Stage> stages = fused.stages(), head;
            // The head is bf16, which no kernel runs together with the other weights.
            if (coding != Coding::kBf16) head = {stages.back()};
            if (!head.empty()) stages.pop_back();
            machine.run(stages, blocks, order);
            if (!head.empty()) machine.run(head, blocks, order);
            const bool same = fused.is_same(one_by_one);
            const std::string what = words("  as one megakernel of %u blocks, order %d", blocks, int(order));
            report(what, same, same ? "the same bits" : "other bits");
        }
    }
}

}  // namespace

int main() {
    MegakernelRun machine;
    check(machine, {{70}, 2, 4, 16, 3, true}, 192);
    // Few KV splits: attention sends results while the last block still reads the previous stage.
    check(machine, {{5}, 4, 1, 16, 1, false}, 192);
    check(machine, {{33, 100}, 1, 8, 32, 4, false}, 576);
    // e4m3 and bf12 weights, except for the head.
    check(machine, {{70}, 2, 4, 16, 3, true, true}, 256, Coding::kScaledRows);
    check(machine, {{33, 100}, 1, 8, 32, 4, false}, 576, Coding::kBf12);
    check(machine, {{70}, 1, 4, 16, 3, true, true}, 192, Coding::kBf12);
    check(machine, {{33, 100}, 1, 8, 32, 4, false}, 640, Coding::kBlocks);
}
