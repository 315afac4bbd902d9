// Counter-based random numbers, the same bits as ops::rng on the host.
#pragma once
#include <cstdint>

__device__ __forceinline__ uint4 philox(uint64_t key, uint64_t counter, uint64_t stream) {
    uint32_t x0 = counter, x1 = counter >> 32, x2 = stream, x3 = stream >> 32;
    uint32_t k0 = key, k1 = key >> 32;
#pragma unroll
    for (int round = 0; round < 10; ++round) {
        const uint32_t low_a = 0xD2511F53u * x0, high_a = __umulhi(0xD2511F53u, x0);
        const uint32_t low_b = 0xCD9E8D57u * x2, high_b = __umulhi(0xCD9E8D57u, x2);
        x0 = high_b ^ x1 ^ k0;
        x1 = low_b;
        x2 = high_a ^ x3 ^ k1;
        x3 = low_a;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    return make_uint4(x0, x1, x2, x3);
}

// Gumbel noise of one random word.
__device__ __forceinline__ float noise(uint32_t word) {
    const float uniform = (static_cast<float>(word >> 9) + 0.5f) * (1.0f / 8388608.0f);
    return -logf(-logf(uniform));
}

// The Gumbel noise of one token at one output position.
__device__ __forceinline__ float gumbel(uint64_t seed, uint32_t position, uint32_t token) {
    const uint4 words = philox(seed, position, token / 4);
    const uint32_t which = token % 4;
    return noise(which == 0 ? words.x : which == 1 ? words.y : which == 2 ? words.z : words.w);
}
