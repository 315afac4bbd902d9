// Warpgroup MMA, m64nNk16: four warps with sixteen rows each; operand B comes from shared memory.
//
// Accumulators are laid out like m16n8k16 fragments side by side. Matrices in shared memory have rows of 64 elements with the
// 128-byte swizzle and begin at multiples of 1024 bytes.
#pragma once
#include <cstdint>

// K-major operand: rows run along K; eight rows take 1024 bytes.
__device__ __forceinline__ uint64_t k_major_descriptor(uint32_t address) {
    return (address & 0x3ffff) >> 4 | uint64_t{1} << 16 | uint64_t{1024 >> 4} << 32 | uint64_t{1} << 62;
}

// MN-major operand: K runs from row to row, and every 64 columns lie `apart` bytes from the previous ones.
__device__ __forceinline__ uint64_t mn_major_descriptor(uint32_t address, uint32_t apart) {
    return (address & 0x3ffff) >> 4 | static_cast<uint64_t>(apart >> 4) << 16 | uint64_t{1024 >> 4} << 32 | uint64_t{1} << 62;
}

// The descriptor `bytes` further on.
__device__ __forceinline__ uint64_t advance_descriptor(uint64_t matrix, uint32_t bytes) { return matrix + (bytes >> 4); }

// Orders register accesses before the MMAs that follow.
__device__ __forceinline__ void warpgroup_arrive() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }

__device__ __forceinline__ void warpgroup_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }

template <int kPending>
__device__ __forceinline__ void warpgroup_wait() {
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kPending) : "memory");
}

// Keeps the compiler from moving accesses of accumulators across a wait.
template <int kCount>
__device__ __forceinline__ void warpgroup_fence_operand(float (&sums)[kCount]) {
#pragma unroll
    for (int i = 0; i < kCount; ++i) asm volatile("" : "+f"(sums[i])::"memory");
}

// sums = a · bᵀ (+ sums), a: 64 rows, b: kWidth rows, both K-major.
template <int kWidth>
__device__ __forceinline__ void wgmma_ss(float (&sums)[kWidth / 2], uint64_t a, uint64_t b, bool accumulate);

// sums += a · b, a in registers, b: sixteen rows of kWidth columns, MN-major.
template <int kWidth>
__device__ __forceinline__ void wgmma_rs_mn_major(float (&sums)[kWidth / 2], const uint32_t (&a)[4], uint64_t b);

// Stores four 8×8 matrices of 16-bit elements from fragments; lane l gives the address of row l % 8 of matrix l / 8.
__device__ __forceinline__ void stmatrix(uint32_t address, const uint32_t (&from)[4]) {
    asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(address), "r"(from[0]), "r"(from[1]),
                 "r"(from[2]), "r"(from[3])
                 : "memory");
}

#define OUT4(i) "+f"(sums[i]), "+f"(sums[i + 1]), "+f"(sums[i + 2]), "+f"(sums[i + 3])
#define OUT16(i) OUT4(i), OUT4(i + 4), OUT4(i + 8), OUT4(i + 12)

template <>
__device__ __forceinline__ void wgmma_ss<8>(float (&sums)[4], uint64_t a, uint64_t b, bool accumulate) {
    asm volatile(
        "{\n.reg .pred accumulate;\nsetp.ne.b32 accumulate, %6, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {"
        "%0, %1, %2, %3}, "
        "%4, %5, accumulate, 1, 1, 0, 0;\n}\n"
        : OUT4(0)
        : "l"(a), "l"(b), "r"(static_cast<uint32_t>(accumulate)));
}

template <>
__device__ __forceinline__ void wgmma_ss<16>(float (&sums)[8], uint64_t a, uint64_t b, bool accumulate) {
    asm volatile(
        "{\n.reg .pred accumulate;\nsetp.ne.b32 accumulate, %10, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n16k16.f32.bf16.bf16 {"
        "%0, %1, %2, %3, %4, %5, %6, %7}, "
        "%8, %9, accumulate, 1, 1, 0, 0;\n}\n"
        : OUT4(0), OUT4(4)
        : "l"(a), "l"(b), "r"(static_cast<uint32_t>(accumulate)));
}

template <>
__device__ __forceinline__ void wgmma_ss<32>(float (&sums)[16], uint64_t a, uint64_t b, bool accumulate) {
    asm volatile(
        "{\n.reg .pred accumulate;\nsetp.ne.b32 accumulate, %18, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n32k16.f32.bf16.bf16 {"
        "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15}, "
        "%16, %17, accumulate, 1, 1, 0, 0;\n}\n"
        : OUT16(0)
        : "l"(a), "l"(b), "r"(static_cast<uint32_t>(accumulate)));
}

template <>
__device__ __forceinline__ void wgmma_ss<64>(float (&sums)[32], uint64_t a, uint64_t b, bool accumulate) {
    asm volatile(
        "{\n.reg .pred accumulate;\nsetp.ne.b32 accumulate, %34, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {"
        "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
        "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, "
        "%32, %33, accumulate, 1, 1, 0, 0;\n}\n"
        : OUT16(0), OUT16(16)
        : "l"(a), "l"(b), "r"(static_cast<uint32_t>(accumulate)));
}

template <>
__device__ __forceinline__ void wgmma_ss<128>(float (&sums)[64], uint64_t a, uint64_t b, bool accumulate) {
    asm volatile(
        "{\n.reg .pred accumulate;\nsetp.ne.b32 accumulate, %66, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {"
        "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
        "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
        "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
        "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63}, "
        "%64, %65, accumulate, 1, 1, 0, 0;\n}\n"
        : OUT16(0), OUT16(16), OUT16(32), OUT16(48)
        : "l"(a), "l"(b), "r"(static_cast<uint32_t>(accumulate)));
}

template <>
__device__ __forceinline__ void wgmma_rs_mn_major<64>(float (&sums)[32], const uint32_t (&a)[4], uint64_t b) {
    asm volatile(
        "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {"
        "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
        "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, "
        "{%32, %33, %34, %35}, %36, 1, 1, 1, 1;\n"
        : OUT16(0), OUT16(16)
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
}

template <>
__device__ __forceinline__ void wgmma_rs_mn_major<128>(float (&sums)[64], const uint32_t (&a)[4], uint64_t b) {
    asm volatile(
        "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {"
        "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
        "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
        "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
        "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63}, "
        "{%64, %65, %66, %67}, %68, 1, 1, 1, 1;\n"
        : OUT16(0), OUT16(16), OUT16(32), OUT16(48)
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
}

template <>
__device__ __forceinline__ void wgmma_rs_mn_major<256>(float (&sums)[128], const uint32_t (&a)[4], uint64_t b) {
    asm volatile(
        "wgmma.mma_async.sync.aligned.m64n256k16.f32.bf16.bf16 {"
        "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
        "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
        "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
        "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63, "
        "%64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, "
        "%80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95, "
        "%96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111, "
        "%112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127}, "
        "{%128, %129, %130, %131}, %132, 1, 1, 1, 1;\n"
        : OUT16(0), OUT16(16), OUT16(32), OUT16(48), OUT16(64), OUT16(80), OUT16(96), OUT16(112)
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
}

// sums = a · bᵀ (+ sums), a: sixteen columns in registers, b: kWidth rows, K-major.
template <int kWidth>
__device__ __forceinline__ void wgmma_rs(float (&sums)[kWidth / 2], const uint32_t (&a)[4], uint64_t b, bool add);

template <>
__device__ __forceinline__ void wgmma_rs<8>(float (&sums)[4], const uint32_t (&a)[4], uint64_t b, bool add) {
    asm volatile(
        "{\n.reg .pred add;\nsetp.ne.b32 add, %9, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%0, %1, %2, %3}, {%4, %5, %6, %7}, %8, add, 1, 1, 0;\n}\n"
        : OUT4(0)
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(static_cast<uint32_t>(add)));
}

template <>
__device__ __forceinline__ void wgmma_rs<16>(float (&sums)[8], const uint32_t (&a)[4], uint64_t b, bool add) {
    asm volatile(
        "{\n.reg .pred add;\nsetp.ne.b32 add, %13, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n16k16.f32.bf16.bf16 {%0, %1, %2, %3, %4, %5, %6, %7}, {%8, %9, %10, %11}, %12, "
        "add, 1, 1, 0;\n}\n"
        : OUT4(0), OUT4(4)
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(static_cast<uint32_t>(add)));
}

template <>
__device__ __forceinline__ void wgmma_rs<32>(float (&sums)[16], const uint32_t (&a)[4], uint64_t b, bool add) {
    asm volatile(
        "{\n.reg .pred add;\nsetp.ne.b32 add, %21, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n32k16.f32.bf16.bf16 {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, "
        "%14, %15}, {%16, %17, %18, %19}, %20, add, 1, 1, 0;\n}\n"
        : OUT16(0)
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(static_cast<uint32_t>(add)));
}

template <>
__device__ __forceinline__ void wgmma_rs<64>(float (&sums)[32], const uint32_t (&a)[4], uint64_t b, bool add) {
    asm volatile(
        "{\n.reg .pred add;\nsetp.ne.b32 add, %37, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, "
        "%14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, {%32, %33, %34, %35}, "
        "%36, add, 1, 1, 0;\n}\n"
        : OUT16(0), OUT16(16)
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(static_cast<uint32_t>(add)));
}

#undef OUT4
#undef OUT16
