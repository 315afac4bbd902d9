// Products of a hundred rows and more, plain and gated, beside loops in double precision.
#include "case.h"

#include "linear_wide.cu"

namespace {

using emulator::Order;

struct Shape {
    int rows;
    int outputs;
    int inputs;
    Order order;
    bool biased = false;
    bool gelu = false;
};

// As linear/wide.rs describes weights and rows.
LinearParams params_for(const Matrix& weight, const Matrix& x, Matrix& out, bool gated) {
    const uint64_t inputs = weight.columns, row = 2 * weight.stride, outputs = weight.rows;
    LinearParams p{};
    p.weight = gated ? emulator::make_map(weight.elements.data(), {inputs, 8, 2, outputs / 16},
                                          {row, outputs / 2 * row, 8 * row}, {64, 8, 2, 12})
                     : emulator::make_map(weight.elements.data(), {inputs, 8, 2, outputs / 16}, {2 * row, row, 16 * row},
                                          {64, 8, 2, 12});
    p.x = emulator::make_map(x.elements.data(), {inputs, uint64_t(x.rows)}, {2ul * x.stride}, {64, 128});
    p.out = out.elements.data();
    p.out_stride = out.stride;
    p.rows = x.rows;
    p.outputs = outputs;
    p.stages = (inputs + 63) / 64;
    return p;
}

double curve(double x, bool gelu) {
    return gelu ? 0.5 * x * (1 + std::tanh(0.7978845608 * (x + 0.044715 * x * x * x))) : x / (1 + std::exp(-x));
}

void check(const Shape& shape, bool gated) {
    const Matrix weight = Matrix::random(shape.outputs, shape.inputs), x = Matrix::random(shape.rows, shape.inputs, 8);
    const Matrix bias = Matrix::random(1, shape.outputs);
    const int width = gated ? shape.outputs / 2 : shape.outputs;
    Matrix out(shape.rows, width, 8);
    LinearParams p = params_for(weight, x, out, gated);
    if (shape.biased) p.bias = bias.elements.data();
    p.gelu = shape.gelu;
    const uint32_t blocks = (shape.outputs + 191) / 192;
    emulator::launch({blocks, 512, kWholeRoom, shape.order}, [&] { gated ? linear_gated_wide(p) : linear_stream_wide(p); });

    std::vector<double> expected;
    for (int row = 0; row < shape.rows; ++row) {
        const auto sum = [&](int output) {
            double total = shape.biased ? bias.at(0, output) : 0.0;
            for (int i = 0; i < shape.inputs; ++i) total += double(x.at(row, i)) * weight.at(output, i);
            return total;
        };
        for (int i = 0; i < width; ++i) expected.push_back(gated ? curve(sum(i), shape.gelu) * sum(width + i) : sum(i));
    }
    const std::string name = words("%s, %d rows, %d x %d%s%s", gated ? "gated" : "results", shape.rows, shape.outputs,
                                   shape.inputs, shape.biased ? ", bias" : "", shape.gelu ? ", gelu" : "");
    report_close(name, out.numbers(), expected, kOfBf16);
    if (!out.has_clean_gaps()) report(name, false, "writes behind rows");
}

}  // namespace

int main() {
    // One stage and fewer than are last, rings that are just full and that turn several times, tiles and rows that are not full.
    const Shape shapes[] = {
        {131, 208, 8, Order::kForward},         {256, 192, 200, Order::kBackward, true},
        {130, 16, 256, Order::kShuffled},       {200, 400, 520, Order::kShuffled, true, true},
        {256, 192, 704, Order::kForward, true}, {129, 32, 1096, Order::kBackward, false, true},
    };
    for (const Shape& shape : shapes) {
        check(shape, false);
        check(shape, true);
    }
}
