// Pipeline states: positions in rings of stages.
#pragma once
#include <cstdint>

// A stage index, and the parity of its phase.
struct PipelineState {
    uint32_t index = 0;
    uint32_t parity = 0;

    __device__ __forceinline__ void advance(uint32_t stages) {
        if (++index == stages) {
            index = 0;
            parity ^= 1;
        }
    }

    // Advances by at most `stages`.
    __device__ __forceinline__ void advance(uint32_t by, uint32_t stages) {
        index += by;
        if (index >= stages) {
            index -= stages;
            parity ^= 1;
        }
    }
};

// For a ring whose size is a compile-time constant.
template <int kStages>
struct FixedPipelineState : PipelineState {
    __device__ __forceinline__ void advance() { PipelineState::advance(kStages); }
};
