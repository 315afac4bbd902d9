// ops::SampleParams, field by field.
#pragma once
#include <cstdint>

struct SampleParams {
    uint64_t seed;
    float temperature;
    float top_p;
    float min_p;
    uint32_t top_k;
    float frequency;
    float presence;
    float repetition;
    uint32_t reserved;
};
