// Kernels whose blocks take a row, or a part of one: gates, norms, GEMMs of any shape, penalties.
#include "case.h"

#include "activation.cu"
#include "linear_any.cu"
#include "logits.cu"
#include "norm.cu"

namespace {

using emulator::Order;

constexpr uint32_t kThreads = 64;

double gated(double gate, double up, bool gelu) {
    const double share = gelu ? 1.5957691216057308 * (gate + 0.044715 * gate * gate * gate) : gate;
    return gate / (1.0 + std::exp(-share)) * up;
}

// Rows of `width` columns, by vectors or not; a row's blocks do not end where the row does.
void check_gates(int rows, int width, bool vectors, Order order) {
    const int gap = vectors ? 8 : 3;
    for (bool gelu : {false, true}) {
        const Matrix gate_up = Matrix::random(rows, 2 * width, gap);
        Matrix out(rows, width, gap);
        const ActivationParams p{gate_up.elements.data(), out.elements.data(), uint32_t(gate_up.stride), uint32_t(out.stride),
                                 uint32_t(width),         gelu,                vectors};
        const uint32_t units = vectors ? width / 8 : width, each = (units + kVectors * kThreads - 1) / (kVectors * kThreads);
        emulator::launch({.blocks = uint32_t(rows), .threads = kThreads, .shared_bytes = 0, .order = order, .each = each},
                         [&] { gated_activation(p); });
        std::vector<double> expected;
        for (int row = 0; row < rows; ++row) {
            for (int i = 0; i < width; ++i) expected.push_back(gated(gate_up.at(row, i), gate_up.at(row, width + i), gelu));
        }
        const std::string name = words("gates of %d rows of %d, %u blocks each", rows, width, each);
        report_close(name, out.numbers(), expected, kOfBf16);
        report(name, out.has_clean_gaps(), "gaps");
    }
}

// Rows added to a residual and normalised, each the sum of `parts` matrices; a block takes more than one of them.
void check_norm(int rows, int width, int parts, Order order) {
    constexpr double kEps = 1e-6;
    constexpr int kGap = 8;
    const Matrix x = Matrix::random(parts * rows, width, kGap), weight = Matrix::random(1, width);
    Matrix residual = Matrix::random(rows, width, kGap), out(rows, width, kGap);
    std::vector<double> sums, expected;
    for (int row = 0; row < rows; ++row) {
        double squares = 0;
        for (int i = 0; i < width; ++i) {
            double sum = residual.at(row, i);
            for (int part = 0; part < parts; ++part) sum += x.at(part * rows + row, i);
            sums.push_back(sum);
            squares += sum * sum;
        }
        const double factor = 1 / std::sqrt(squares / width + kEps);
        for (int i = 0; i < width; ++i) expected.push_back(sums[row * width + i] * factor * weight.at(0, i));
    }
    const NormParams p{x.elements.data(), residual.elements.data(), weight.elements.data(), out.elements.data(),
                       uint32_t(x.stride), uint32_t(residual.stride), uint32_t(out.stride), uint32_t(width),
                       uint32_t(rows), 0, 1, float(kEps)};
    const uint32_t threads = (width / 8 + 31) / 32 * 32;
    emulator::launch({.blocks = uint32_t(rows + 1) / 2, .threads = threads, .shared_bytes = 0, .order = order}, [&] {
        if (parts == 2) {
            add_split_k_norm_short(p);
        } else {
            add_rms_norm_short(p);
        }
    });
    const std::string name = words("a norm of %d rows of %d, %d parts each", rows, width, parts);
    report_close(name + ", the residual", residual.numbers(), sums, kOfBf16);
    report_close(name, out.numbers(), expected, kOfBf16);
    report(name, residual.has_clean_gaps() && out.has_clean_gaps(), "gaps");
}

void check_any(int rows, int inputs, int outputs, Order order) {
    const Matrix x = Matrix::random(rows, inputs, 3), weight = Matrix::random(outputs, inputs), bias = Matrix::random(1, outputs);
    Matrix out(rows, outputs, 5);
    const AnyParams p{x.elements.data(), weight.elements.data(), bias.elements.data(), out.elements.data(), uint32_t(x.stride),
                      uint32_t(out.stride), uint32_t(inputs), uint32_t(outputs), 0};
    emulator::launch({.blocks = uint32_t(rows), .threads = 256, .shared_bytes = 0, .order = order, .each = (p.outputs + 7) / 8},
                     [&] { linear_any(p); });
    std::vector<double> expected;
    for (int row = 0; row < rows; ++row) {
        for (int output = 0; output < outputs; ++output) {
            double sum = bias.at(0, output);
            for (int i = 0; i < inputs; ++i) sum += double(x.at(row, i)) * weight.at(output, i);
            expected.push_back(sum);
        }
    }
    const std::string name = words("a GEMM of %d rows, %d to %d", rows, inputs, outputs);
    report_close(name, out.numbers(), expected, kOfBf16);
    report(name, out.has_clean_gaps(), "gaps");
}

// Every second row has penalties, and every third token was produced.
void check_penalties(uint32_t rows, uint32_t vocabulary, Order order) {
    std::vector<SampleParams> params;
    std::vector<uint32_t> table_rows;
    std::vector<float> logits;
    std::vector<uint16_t> counts;
    for (uint32_t row = 0; row < rows; ++row) {
        params.push_back({0, 1.0f, 1.0f, 0.0f, ~0u, row % 2 * 0.5f, row % 2 * 0.25f, row % 2 ? 1.5f : 1.0f, 0});
        table_rows.push_back(rows - 1 - row);
        for (uint32_t token = 0; token < vocabulary; ++token) {
            logits.push_back(random_numbers().number());
            counts.push_back(token % 3 ? 0 : row + token);
        }
    }
    std::vector<double> expected;
    for (uint32_t row = 0; row < rows; ++row) {
        for (uint32_t token = 0; token < vocabulary; ++token) {
            const double logit = logits[row * vocabulary + token], count = counts[table_rows[row] * vocabulary + token];
            const SampleParams& how = params[row];
            const double scaled = logit > 0 ? logit / how.repetition : logit * how.repetition;
            expected.push_back(count > 0 ? scaled - count * how.frequency - how.presence : logit);
        }
    }
    const PenaliseParams p{counts.data(), table_rows.data(), params.data(), logits.data(), vocabulary, vocabulary};
    emulator::launch(
        {.blocks = rows, .threads = 256, .shared_bytes = 0, .order = order, .each = (vocabulary + 255) / 256}, [&] { penalise(p); });
    // A few differences would be lost in a sum of squares.
    for (size_t i = 0; i < expected.size(); ++i) {
        if (std::abs(logits[i] - expected[i]) > 1e-5 * (1 + std::abs(expected[i]))) report("penalties", false, words("logit %zu", i));
    }
    report(words("penalties of %u rows of %u tokens", rows, vocabulary), true, "every logit");
}

}  // namespace

int main() {
    check_gates(3, 24, true, Order::kForward);
    check_gates(5, 2056, true, Order::kShuffled);
    check_gates(4, 201, false, Order::kBackward);
    for (int parts : {1, 2}) {
        check_norm(5, 264, parts, Order::kShuffled);
        check_norm(2, 1024, parts, Order::kBackward);
        check_norm(3, 72, parts, Order::kForward);
    }
    check_any(5, 33, 19, Order::kBackward);
    check_any(2, 1, 8, Order::kShuffled);
    check_penalties(4, 700, Order::kBackward);
    check_penalties(3, 5, Order::kForward);
}
