// Single GEMM stages with every epilogue, beside loops in double precision.
#include "megakernel_stages.h"

namespace {

using emulator::Order;

struct Shape {
    int rows;
    int outputs;
    int inputs;
    uint32_t blocks;
    Order order;
    Coding coding = Coding::kBf16;
};

std::string name(const char* what, const Shape& shape) {
    const char* codings[] = {"", ", bf12", ", codes, one scale", ", codes, scaled rows", ", codes, blocks", ", codes, wide blocks"};
    return words("%s, %d rows, %d x %d, %u blocks%s", what, shape.rows, shape.outputs, shape.inputs, shape.blocks,
                 codings[int(shape.coding)]);
}

std::vector<bf16> some_bias(int count) {
    std::vector<bf16> bias;
    for (int i = 0; i < count; ++i) bias.push_back(random_numbers().bf16_number());
    return bias;
}

void check_results(MegakernelRun& machine, const Shape& shape, bool wide, bool biased) {
    const StageWeight weight(shape.outputs, shape.inputs, shape.coding);
    const Matrix x = Matrix::random(shape.rows, shape.inputs, 8);
    const std::vector<bf16> bias = some_bias(shape.outputs);
    Matrix out(shape.rows, shape.outputs, 8);
    std::vector<float> floats(size_t(shape.rows) * shape.outputs, NAN);
    Stage stage = gemm_stage(weight, StageKind::kStore, x, out);
    if (wide) {
        stage.linear.out = floats.data();
        stage.linear.out_stride = shape.outputs;
        stage.linear.wide = 1;
    }
    if (biased) stage.linear.bias = bias.data();
    machine.run({stage}, shape.blocks, shape.order);

    std::vector<double> expected = weight.times(x);
    for (size_t i = 0; biased && i < expected.size(); ++i) expected[i] += __bfloat162float(bias[i % shape.outputs]);
    const std::string full = name(wide ? "results as f32" : "results as bf16", shape) + (biased ? ", bias" : "");
    wide ? report_close(full, floats, expected, kOfFloats) : report_close(full, out.numbers(), expected, kOfBf16);
    if (!out.has_clean_gaps()) report(full, false, "writes past the ends of rows");
}

void check_gated(MegakernelRun& machine, const Shape& shape, bool biased, bool gelu) {
    const StageWeight weight(shape.outputs, shape.inputs, shape.coding);
    const Matrix x = Matrix::random(shape.rows, shape.inputs);
    const std::vector<bf16> bias = some_bias(shape.outputs);
    const int width = shape.outputs / 2;
    Matrix out(shape.rows, width, 8);
    Stage stage = gemm_stage(weight, StageKind::kGated, x, out);
    if (biased) stage.linear.bias = bias.data();
    stage.linear.gelu = gelu;
    machine.run({stage}, shape.blocks, shape.order);

    const std::vector<double> sums = weight.times(x);
    std::vector<double> expected;
    for (int row = 0; row < shape.rows; ++row) {
        for (int i = 0; i < width; ++i) {
            const auto sum = [&](int at) {
                return sums[size_t(row) * shape.outputs + at] + (biased ? __bfloat162float(bias[at]) : 0.0f);
            };
            const double x = sum(i);
            const double curve = 0.5 * x * (1 + std::tanh(0.7978845608 * (x + 0.044715 * x * x * x)));
            expected.push_back((gelu ? curve : x / (1 + std::exp(-x))) * sum(width + i));
        }
    }
    const std::string full = name("gated", shape) + (biased ? ", bias" : "") + (gelu ? ", gelu" : "");
    report_close(full, out.numbers(), expected, kOfBf16);
    if (!out.has_clean_gaps()) report(full, false, "writes past the ends of rows");
}

// Rows of x that are one in one place: results are weights.
void check_all_numbers(MegakernelRun& machine, int outputs, int inputs, uint32_t blocks) {
    const StageWeight weight(spread(outputs, inputs));
    int wrong = 0;
    for (int first = 0; first < inputs; first += 2) {
        Matrix x(2, inputs), out(2, outputs);
        for (int i = 0; i < inputs; ++i) {
            for (int row = 0; row < 2; ++row) x.set(row, i, i == first + row);
        }
        std::vector<float> floats(2 * outputs, NAN);
        Stage stage = gemm_stage(weight, StageKind::kStore, x, out);
        stage.linear.out = floats.data();
        stage.linear.out_stride = outputs;
        stage.linear.wide = 1;
        machine.run({stage}, blocks, Order::kShuffled);
        for (int row = 0; row < 2; ++row) {
            for (int i = 0; i < outputs; ++i) wrong += floats[row * outputs + i] != float(weight.numbers[size_t(i) * inputs + first + row]);
        }
    }
    const uint32_t outliers = weight.bf12.outlier_count();
    report(words("all numbers of %d x %d, bf12", outputs, inputs), wrong == 0 && outliers > 8,
           words("%u outliers, %d of %d numbers wrong", outliers, wrong, outputs * inputs));
}

// e4m3 is widened to f16, inputs may be of any size: about 2^size in every segment, or zero.
void check_sizes(MegakernelRun& machine, const std::vector<int>& sizes) {
    const StageWeight weight(40, sizes.size() * kSegment, Coding::kBlocks);
    Matrix x = Matrix::random(2, weight.inputs);
    for (int i = 0; i < weight.inputs; ++i) {
        const int size = sizes[i / kSegment];
        // Of one segment, numbers of very different sizes.
        const int own = i % 5 == 0 ? size - 20 : size;
        for (int row = 0; row < 2; ++row) x.set(row, i, size == 0 ? 0 : std::ldexp(double(x.at(row, i)), own));
    }
    Matrix out(2, 40);
    std::vector<float> floats(2 * 40, NAN);
    Stage stage = gemm_stage(weight, StageKind::kStore, x, out);
    stage.linear.out = floats.data();
    stage.linear.out_stride = 40;
    stage.linear.wide = 1;
    machine.run({stage}, 2);
    report_close(words("inputs from 2^%d on, codes", sizes[0]), floats, weight.times(x), kOfFloats);
}

// Residual add, and a GEMM that reads its norm with the RMS scale deferred.
void check_add_norm(MegakernelRun& machine, const Shape& shape, bool biased) {
    const StageWeight weight(shape.outputs, shape.inputs, shape.coding);
    const Matrix x = Matrix::random(shape.rows, shape.inputs);
    const std::vector<bf16> bias = some_bias(shape.outputs);
    Matrix out(shape.rows, shape.outputs, 8);
    AddNorm add_norm(shape.rows, shape.outputs);
    const Matrix before = add_norm.residual;
    Stage stage = gemm_stage(weight, StageKind::kAddNorm, x, out);
    if (biased) stage.linear.bias = bias.data();
    add_norm.end(stage);
    machine.run({stage}, shape.blocks, shape.order);

    const std::vector<double> sums = weight.times(x);
    std::vector<double> residual, results, squares(add_norm.squares.size());
    for (int row = 0; row < shape.rows; ++row) {
        for (int i = 0; i < shape.outputs; ++i) {
            const double sum = sums[row * shape.outputs + i] + before.at(row, i) + (biased ? __bfloat162float(bias[i]) : 0.0f);
            residual.push_back(sum);
            results.push_back(sum * add_norm.norm[i]);
            squares[row * add_norm.parts() + i / 16] += sum * sum;
        }
    }
    const std::string full = name("add_norm", shape) + (biased ? ", bias" : "");
    report_close(full + ", residual", add_norm.residual.numbers(), residual, kOfBf16);
    report_close(full + ", results", out.numbers(), results, kOfBf16);
    report_close(full + ", squares", add_norm.squares, squares, kOfFloats);

    // The reader must compute the same norm factors.
    const StageWeight next(48, shape.outputs);
    Matrix logits(shape.rows, 48);
    Stage reader = gemm_stage(next, StageKind::kStore, out, logits);
    add_norm.complete(reader);
    machine.run({reader}, shape.blocks, shape.order);
    std::vector<double> expected = next.times(out);
    for (size_t i = 0; i < expected.size(); ++i) {
        double sum = 0;
        for (uint32_t part = 0; part < add_norm.parts(); ++part) sum += squares[i / 48 * add_norm.parts() + part];
        expected[i] /= std::sqrt(sum / shape.outputs + 1e-6);
    }
    report_close(full + ", deferred norm", logits.numbers(), expected, kOfBf16);
}

}  // namespace

int main() {
    MegakernelRun machine;
    // Outputs that fill no group, inputs that end inside a tile, one and many tiles, more blocks than groups.
    const Shape shapes[] = {
        {1, 16, 64, 1, Order::kForward},     {1, 40, 1152, 2, Order::kBackward}, {2, 64, 2048, 3, Order::kShuffled},
        {2, 200, 4352, 4, Order::kForward},  {1, 7, 576, 2, Order::kForward},    {2, 24, 512, 4, Order::kShuffled},
    };
    for (const Shape& shape : shapes) {
        check_results(machine, shape, true, false);
        check_results(machine, shape, false, true);
    }
    // More tiles than the ring has.
    check_results(machine, {1, 96, 9216, 1, Order::kBackward}, true, true);
    check_gated(machine, {1, 160, 640, 2, Order::kForward}, false, false);
    check_gated(machine, {2, 96, 1152, 4, Order::kShuffled}, true, false);
    check_gated(machine, {2, 48, 64, 1, Order::kBackward}, true, true);
    check_add_norm(machine, {1, 384, 640, 2, Order::kForward}, false);
    check_add_norm(machine, {2, 192, 1088, 4, Order::kShuffled}, true);
    check_add_norm(machine, {2, 64, 64, 3, Order::kBackward}, false);
    {
        constexpr Coding coding = Coding::kBf12;
        check_results(machine, {1, 64, 128, 3, Order::kForward, coding}, true, false);
        check_results(machine, {1, 96, 1152, 2, Order::kBackward, coding}, true, true);
        check_results(machine, {2, 192, 4352, 3, Order::kShuffled, coding}, false, true);
        // Half of the last segment is not there.
        check_results(machine, {2, 96, 832, 1, Order::kBackward, coding}, true, false);
        // More tiles than the ring has.
        check_results(machine, {1, 96, 9216, 1, Order::kBackward, coding}, true, true);
        check_gated(machine, {2, 288, 1152, 4, Order::kShuffled, coding}, true, false);
        check_gated(machine, {1, 96, 704, 1, Order::kForward, coding}, false, true);
        check_add_norm(machine, {2, 192, 1280, 4, Order::kShuffled, coding}, true);
    }
    check_all_numbers(machine, 64, 320, 3);
    for (Coding coding : {Coding::kOneScale, Coding::kScaledRows, Coding::kBlocks, Coding::kWideBlocks}) {
        check_results(machine, {1, 40, 1152, 2, Order::kBackward, coding}, true, false);
        check_results(machine, {2, 200, 4352, 3, Order::kShuffled, coding}, false, true);
        check_results(machine, {1, 7, 128, 2, Order::kForward, coding}, true, false);
        check_gated(machine, {2, 288, 1152, 4, Order::kShuffled, coding}, true, false);
        check_add_norm(machine, {2, 192, 1280, 4, Order::kShuffled, coding}, true);
    }
    check_sizes(machine, {1, -3, 0, 2, 1, -12, 4, -1, 0, 3});
    check_sizes(machine, {80, 79, 0, 77, 80});
    check_sizes(machine, {-90, 0, -91, -90});
    // More tiles than the ring has.
    check_results(machine, {1, 48, 18432, 1, Order::kBackward, Coding::kBlocks}, true, true);
    // As many as lanes keep scales of, and the longest two rows that fit.
    check_results(machine, {1, 40, 32768, 2, Order::kShuffled, Coding::kBlocks}, true, false);
    check_results(machine, {2, 24, 25472, 1, Order::kForward, Coding::kScaledRows}, true, false);
}
