// Copies a few words between pinned host memory and the device by the SMs.
//
// The copy engine takes ten times as long to start and to wait for, and a step can do nothing meanwhile. Kernels read staged
// inputs before they wait for their predecessors, so dependents are launched only at the end.
#include <cstdint>

#include "common/order.cuh"

struct TransferParams {
    const void* from;
    void* to;
    uint32_t words;
    // Both sides begin at multiples of 16 bytes.
    uint32_t even;
};

extern "C" __global__ void __launch_bounds__(256) transfer(const __grid_constant__ TransferParams p) {
    wait_on_dependent_grids();
    const uint32_t thread = blockIdx.x * blockDim.x + threadIdx.x, threads = gridDim.x * blockDim.x;
    const uint32_t vectors = p.even ? p.words / 4 : 0;
    for (uint32_t i = thread; i < vectors; i += threads) {
        static_cast<uint4*>(p.to)[i] = __ldcv(static_cast<const uint4*>(p.from) + i);
    }
    for (uint32_t i = vectors * 4 + thread; i < p.words; i += threads) {
        static_cast<uint32_t*>(p.to)[i] = __ldcv(static_cast<const uint32_t*>(p.from) + i);
    }
    __threadfence();
}
