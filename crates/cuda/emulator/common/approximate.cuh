// Exact here; results that are denormal are zero, as in the instruction.
#pragma once
#include <cfloat>
#include <cmath>

inline float power_of_two(float x) {
    const float y = exp2f(x);
    return y < FLT_MIN ? 0.0f : y;
}

inline float quick_tanh(float x) { return tanhf(x); }

inline float quick_reciprocal(float x) {
    const float y = 1.0f / x;
    return std::fabs(y) < FLT_MIN ? 0.0f : y;
}
