// Products with up to 256 rows whose outputs fill the multiprocessors: out = x · weightᵀ + bias, or the same gated.
#include "linear/wide.cuh"

#define WIDE_KERNEL(name, ending)                                                                                 \
    extern "C" __global__ void __launch_bounds__(Wide<Ending::ending>::kThreads, 1)                               \
        name##_wide(const __grid_constant__ LinearParams p) {                                                     \
        extern __shared__ __align__(1024) uint8_t shared[];                                                       \
        Wide<Ending::ending>{p, *reinterpret_cast<Wide<Ending::ending>::Shared*>(shared)}.run();                  \
    }

WIDE_KERNEL(linear_stream, kResults)
WIDE_KERNEL(linear_gated, kGated)
