// Places in rings of stages.
#pragma once
#include <cstdint>

// A stage, and the parity of its turn.
struct Place {
    uint32_t stage = 0;
    uint32_t parity = 0;

    __device__ __forceinline__ void advance(uint32_t stages) {
        if (++stage == stages) {
            stage = 0;
            parity ^= 1;
        }
    }

    // By so many stages, no more than there are.
    __device__ __forceinline__ void advance(uint32_t by, uint32_t stages) {
        stage += by;
        if (stage >= stages) {
            stage -= stages;
            parity ^= 1;
        }
    }
};

// In a ring whose size is known when it is compiled.
template <int kStages>
struct RingPlace : Place {
    __device__ __forceinline__ void advance() { Place::advance(kStages); }
};
