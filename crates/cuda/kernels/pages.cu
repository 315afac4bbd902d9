// Copies keys and values from slots to slots, in all layers at once.
#include <cstdint>

#include "common/order.cuh"

struct CopyPagesParams {
    const uint32_t* from;
    const uint32_t* to;
    const uint32_t* tokens;
    uint8_t* memory;
    uint64_t slots;
    // Bytes of a slot.
    uint32_t width;
    uint32_t planes;
    // Everything is 16-byte aligned.
    uint32_t vectors;
};

// Blocks that share a copy of one plane.
constexpr uint32_t kSharers = 4;

template <typename Vector>
__device__ void copy_share(uint8_t* to, const uint8_t* from, uint64_t bytes, uint32_t share) {
    const uint64_t vectors = bytes / sizeof(Vector);
    for (uint64_t i = share * blockDim.x + threadIdx.x; i < vectors; i += kSharers * blockDim.x) {
        reinterpret_cast<Vector*>(to)[i] = reinterpret_cast<const Vector*>(from)[i];
    }
}

extern "C" __global__ void __launch_bounds__(256) copy_pages(const __grid_constant__ CopyPagesParams p) {
    launch_and_wait_on_dependent_grids();
    const uint32_t share = blockIdx.x % kSharers, rest = blockIdx.x / kSharers;
    const uint32_t plane = rest % p.planes, copy = rest / p.planes;
    uint8_t* slots = p.memory + plane * p.slots * p.width;
    uint8_t* to = slots + static_cast<uint64_t>(p.to[copy]) * p.width;
    const uint8_t* from = slots + static_cast<uint64_t>(p.from[copy]) * p.width;
    const uint64_t bytes = static_cast<uint64_t>(p.tokens[copy]) * p.width;
    if (p.vectors) {
        copy_share<uint4>(to, from, bytes, share);
    } else {
        copy_share<uint8_t>(to, from, bytes, share);
    }
}
