// GEMMs with a row epilogue, with all their parameters, beside loops in double precision.
#pragma once
#include "case.h"

#include "linear/params.cuh"

struct GemmCase {
    int rows;
    int outputs;
    int inputs;
    emulator::Order order;
    Epilogue epilogue = Epilogue::kStore;
    // Blocks that share the inputs of a tile.
    uint32_t parts = 1;
    bool biased = false;
    // Rows of x have a deferred RMS scale.
    bool deferred = false;
    bool gelu = false;
    // Results of floats.
    bool wide = false;
};

class Gemm {
public:
    const GemmCase shape;
    const bool gated = shape.epilogue == Epilogue::kGated;
    const bool add_norm = shape.epilogue == Epilogue::kAddNorm;
    const int width = gated ? shape.outputs / 2 : shape.outputs;
    const Matrix weight;
    Matrix x = Matrix::random(shape.rows, shape.inputs, 8);
    // Where an argmax epilogue writes its keys.
    unsigned long long* keys = nullptr;

    explicit Gemm(const GemmCase& which) : Gemm(which, Matrix::random(which.outputs, which.inputs)) {}

    Gemm(const GemmCase& which, Matrix numbers) : shape(which), weight(std::move(numbers)) {
        for (float& number : squares_) number = 1.0f + std::abs(random_numbers().number());
        for (float& number : norm_) number = random_numbers().number();
    }

    // Hides its rows until the previous kernel ends, which writes them.
    std::function<void()> come_late() {
        const auto kept = x.elements;
        std::fill(x.elements.begin(), x.elements.end(), __float2bfloat16(NAN));
        return [this, kept] { std::copy(kept.begin(), kept.end(), x.elements.begin()); };
    }

    // All but the maps and the stages.
    LinearParams params() {
        LinearParams p{};
        p.out = keys ? keys : shape.wide ? static_cast<void*>(floats_.data()) : out_.elements.data();
        p.out_stride = shape.wide ? width : out_.stride;
        p.rows = shape.rows;
        p.outputs = shape.outputs;
        p.wide = shape.wide;
        p.gelu = shape.gelu;
        if (shape.biased) p.bias = bias_.elements.data();
        if (shape.deferred) {
            p.squares = squares_.data();
            p.parts = kParts;
            p.width = kWidth;
            p.eps = kEps;
        }
        if (add_norm) {
            p.residual = residual_.elements.data();
            p.residual_stride = residual_.stride;
            p.norm = norm_.data();
            p.next_squares = next_squares_.data();
            p.next_parts = next_parts_;
        }
        return p;
    }

    // Compares what the kernel left with what it should have.
    void check(const char* kernel) const {
        std::vector<double> results, sums, squares;
        for (int row = 0; row < shape.rows; ++row) {
            double square = 0;
            for (int i = 0; i < width; ++i) {
                const double sum = of(row, i);
                const double value = gated ? curve(sum) * of(row, width + i) : add_norm ? sum + before_.at(row, i) : sum;
                results.push_back(add_norm ? value * norm_[i] : value);
                sums.push_back(value);
                square += value * value;
                if (i % 16 == 15 || i + 1 == width) squares.push_back(std::exchange(square, 0.0));
            }
        }
        const char* epilogues[] = {"results", "gated", "add_norm"};
        const std::string name =
            words("%s %s, %d rows, %d x %d, %u parts%s%s%s%s", kernel, epilogues[static_cast<int>(shape.epilogue)], shape.rows,
                  shape.outputs, shape.inputs, shape.parts, shape.biased ? ", bias" : "", shape.deferred ? ", deferred" : "",
                  shape.gelu ? ", gelu" : "", shape.wide ? ", floats" : "");
        if (shape.wide) {
            report_close(name, floats_, results, kOfFloats);
        } else {
            report_close(name, out_.numbers(), results, kOfBf16);
        }
        if (!out_.has_clean_gaps()) report(name, false, "writes past the ends of rows");
        if (!add_norm) return;
        report_close(name + ", residual", residual_.numbers(), sums, kOfBf16);
        std::vector<float> found;
        for (int row = 0; row < shape.rows; ++row) {
            for (int i = 0; i < (width + 15) / 16; ++i) found.push_back(next_squares_[row * next_parts_ + i]);
        }
        report_close(name + ", squares", found, squares, kOfFloats);
    }

    // A result of floats.
    float result(int row, int output) const { return floats_[row * width + output]; }

private:
    static constexpr int kParts = 8;
    static constexpr float kWidth = 128.0f, kEps = 1e-5f;
    const Matrix bias_ = Matrix::random(1, shape.outputs);
    std::vector<float> squares_ = std::vector<float>(shape.rows * kParts);
    std::vector<float> norm_ = std::vector<float>(shape.outputs);
    const Matrix before_ = Matrix::random(shape.rows, shape.outputs, 8);
    Matrix residual_ = before_;
    Matrix out_ = Matrix(shape.rows, width, 8);
    std::vector<float> floats_ = std::vector<float>(shape.rows * width, NAN);
    const int next_parts_ = (shape.outputs + 63) / 64 * 4;
    std::vector<float> next_squares_ = std::vector<float>(shape.rows * next_parts_, NAN);

    double of(int row, int output) const {
        double total = 0, squares = 0;
        for (int i = 0; i < shape.inputs; ++i) total += double(x.at(row, i)) * weight.at(output, i);
        for (int i = 0; i < kParts; ++i) squares += squares_[row * kParts + i];
        if (shape.deferred) total /= std::sqrt(squares / kWidth + kEps);
        return total + (shape.biased ? bias_.at(0, output) : 0.0);
    }

    double curve(double x) const {
        return shape.gelu ? 0.5 * x * (1 + std::tanh(0.7978845608 * (x + 0.044715 * x * x * x))) : x / (1 + std::exp(-x));
    }
};
