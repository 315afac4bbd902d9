// Eight bf16 in one 16-byte access.
#pragma once
#include <cstdint>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

using bf16 = __nv_bfloat16;

struct alignas(16) Bf16x8 {
    __nv_bfloat162 pairs[4];
};

// Through uint4: the compiler would copy a struct in words of four bytes.
__device__ __forceinline__ Bf16x8 load8(const bf16* address) {
    const uint4 words = *reinterpret_cast<const uint4*>(address);
    Bf16x8 value;
    memcpy(&value, &words, sizeof value);
    return value;
}

__device__ __forceinline__ void store8(bf16* address, const Bf16x8& value) {
    uint4 words;
    memcpy(&words, &value, sizeof words);
    *reinterpret_cast<uint4*>(address) = words;
}

// A 16-byte store, whatever the compiler knows about the alignment.
__device__ __forceinline__ void store_vector(void* address, uint4 words) {
    asm volatile("st.global.v4.b32 [%0], {%1, %2, %3, %4};" ::"l"(address), "r"(words.x), "r"(words.y), "r"(words.z),
                 "r"(words.w)
                 : "memory");
}

__device__ __forceinline__ void unpack8(const Bf16x8& packed, float (&out)[8]) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        const float2 pair = __bfloat1622float2(packed.pairs[i]);
        out[2 * i] = pair.x;
        out[2 * i + 1] = pair.y;
    }
}

__device__ __forceinline__ Bf16x8 pack8(const float (&values)[8]) {
    Bf16x8 packed;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        packed.pairs[i] = __floats2bfloat162_rn(values[2 * i], values[2 * i + 1]);
    }
    return packed;
}
