// Reductions over a warp and over a block.
#pragma once

__device__ __forceinline__ float warp_sum(float value) {
#pragma unroll
    for (int offset = 16; offset > 0; offset /= 2) {
        value += __shfl_xor_sync(0xffffffffu, value, offset);
    }
    return value;
}

__device__ __forceinline__ float warp_max(float value) {
#pragma unroll
    for (int offset = 16; offset > 0; offset /= 2) {
        value = fmaxf(value, __shfl_xor_sync(0xffffffffu, value, offset));
    }
    return value;
}

// The sum over the block, in every thread. `shared` holds 33 floats; may be called repeatedly.
__device__ __forceinline__ float block_sum(float value, float* shared) {
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = (blockDim.x + 31) / 32;
    value = warp_sum(value);
    __syncthreads();
    if (lane == 0) shared[warp] = value;
    __syncthreads();
    if (warp == 0) {
        const float total = warp_sum(lane < warps ? shared[lane] : 0.0f);
        if (lane == 0) shared[32] = total;
    }
    __syncthreads();
    return shared[32];
}

// The maximum over the block, in every thread.
__device__ __forceinline__ float block_max(float value, float* shared) {
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = (blockDim.x + 31) / 32;
    value = warp_max(value);
    __syncthreads();
    if (lane == 0) shared[warp] = value;
    __syncthreads();
    if (warp == 0) {
        const float total = warp_max(lane < warps ? shared[lane] : -INFINITY);
        if (lane == 0) shared[32] = total;
    }
    __syncthreads();
    return shared[32];
}
