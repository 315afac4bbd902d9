// What all tests need: numbers, matrices, and a line for every case.
#pragma once
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>
#include <vector>

#include "builtins.h"

// Relative errors, root of mean squares: of sums in floats, of results that are rounded to bf16 once or several times, and to eight
// bits.
constexpr double kOfFloats = 1e-5, kOfBf16 = 3e-3, kOfSeveralBf16 = 5e-3, kOfFloat8 = 4e-2;

// The same ones every time.
struct Random {
    std::mt19937 words{5};
    std::normal_distribution<float> curve;

    float number() { return curve(words); }
    __nv_bfloat16 bf16_number(float scale = 1.0f) { return __float2bfloat16(scale * number()); }
};

inline Random& random_numbers() {
    static Random all;
    return all;
}

inline float rounded(double value) { return __bfloat162float(__double2bfloat16(value)); }

// Of an eight-bit float.
inline float number_of(uint8_t code) {
    __nv_fp8_e4m3 number;
    number.__x = code;
    return float(number);
}

// Rows of bf16 with a gap between them that must not be read or written; everything begins as NaN.
struct Matrix {
    int rows;
    int columns;
    int stride;
    std::vector<__nv_bfloat16> elements;

    Matrix(int row_count, int column_count, int gap = 0)
        : rows(row_count),
          columns(column_count),
          stride(column_count + gap),
          elements(size_t(rows) * stride, __float2bfloat16(NAN)) {}

    static Matrix random(int rows, int columns, int gap = 0) {
        Matrix matrix(rows, columns, gap);
        for (int row = 0; row < rows; ++row) {
            for (int i = 0; i < columns; ++i) matrix.elements[row * matrix.stride + i] = random_numbers().bf16_number();
        }
        return matrix;
    }

    float at(int row, int column) const { return __bfloat162float(elements[size_t(row) * stride + column]); }

    void set(int row, int column, double value) { elements[size_t(row) * stride + column] = __double2bfloat16(value); }

    std::vector<double> numbers() const {
        std::vector<double> all;
        for (int row = 0; row < rows; ++row) {
            for (int i = 0; i < columns; ++i) all.push_back(at(row, i));
        }
        return all;
    }

    bool has_clean_gaps() const {
        for (int row = 0; row < rows; ++row) {
            for (int i = columns; i < stride; ++i) {
                if (at(row, i) == at(row, i)) return false;
            }
        }
        return true;
    }

    bool operator==(const Matrix& other) const {
        return memcmp(elements.data(), other.elements.data(), elements.size() * sizeof(__nv_bfloat16)) == 0;
    }
};

inline std::string words(const char* format, ...) __attribute__((format(printf, 1, 2)));

inline std::string words(const char* format, ...) {
    char text[200];
    va_list facts;
    va_start(facts, format);
    vsnprintf(text, sizeof text, format, facts);
    va_end(facts);
    return text;
}

// Prints a case, and ends the program when it is wrong.
inline void report(const std::string& name, bool right, const std::string& found) {
    printf("%s  %s: %s\n", right ? "ok  " : "FAIL", name.c_str(), found.c_str());
    fflush(stdout);
    if (!right) exit(1);
}

// How far results are from what is expected; infinitely far when one is NaN.
template <class Found>
double distance(const std::vector<Found>& found, const std::vector<double>& expected) {
    double error = 0, size = 0;
    for (size_t i = 0; i < expected.size(); ++i) {
        error += (found[i] - expected[i]) * (found[i] - expected[i]);
        size += expected[i] * expected[i];
    }
    const double relative = std::sqrt(error / size);
    return found.size() == expected.size() && relative == relative ? relative : INFINITY;
}

template <class Found>
void report_close(const std::string& name, const std::vector<Found>& found, const std::vector<double>& expected, double bound) {
    const double error = distance(found, expected);
    report(name, error < bound, words("error %.1e of %.1e", error, bound));
}
