// Random weights for benchmarks: small numbers, equal for equal seeds.
#include "common/bf16.cuh"
#include "common/order.cuh"

struct InventParams {
    bf16* out;
    uint64_t count;
    uint64_t seed;
};

// Spreads a counter over all bits.
__device__ __forceinline__ uint64_t mix(uint64_t x) {
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
    return x ^ (x >> 31);
}

// Dependents may read weights before they wait, so they are not launched early. Four numbers per draw, between -0.05 and 0.05.
extern "C" __global__ void __launch_bounds__(256) invent_weight(const __grid_constant__ InventParams p) {
    wait_on_dependent_grids();
    const uint64_t threads = static_cast<uint64_t>(gridDim.x) * blockDim.x;
    const uint64_t first = static_cast<uint64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    for (uint64_t group = first; group * 4 < p.count; group += threads) {
        const uint64_t drawn = mix(p.seed * 0x9e3779b97f4a7c15ull + group);
        for (uint32_t k = 0; k < 4 && group * 4 + k < p.count; ++k) {
            const float unit = static_cast<float>((drawn >> (16 * k)) & 0xffff) / 65536.0f;
            p.out[group * 4 + k] = __float2bfloat16((unit - 0.5f) * 0.1f);
        }
    }
}
