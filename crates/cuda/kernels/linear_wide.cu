// GEMM of up to 256 rows whose outputs fill the SMs: out = x · weightᵀ + bias, or gated.
#include "linear/wide.cuh"

#define WIDE_KERNEL(name, epilogue)                                                                                 \
    extern "C" __global__ void __launch_bounds__(Wide<Epilogue::epilogue>::kThreads, 1)                               \
        name##_wide(const __grid_constant__ LinearParams p) {                                                     \
        extern __shared__ __align__(1024) uint8_t shared[];                                                       \
        Wide<Epilogue::epilogue>{p, *reinterpret_cast<Wide<Epilogue::epilogue>::Shared*>(shared)}.run();                  \
    }

WIDE_KERNEL(linear_stream, kStore)
WIDE_KERNEL(linear_gated, kGated)
