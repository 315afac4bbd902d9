// Programmatic dependent launch: order between kernels that follow each other.
//
// A kernel begins while its predecessor still runs. Before it waits it may read only what no kernel of the step writes: weights,
// staged inputs, the page table, keys and values of earlier steps (`resolve_tokens` or `open_step` opens a step and waits for
// everything). Attention plans are written within a step; their kernel launches dependents only at its end, or only a GEMM
// that itself delays its dependents (`delays_dependents`).
#pragma once

// The first thread of a block that triggers does so for the whole block.
__device__ __forceinline__ void launch_dependent_grids() {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

// Every thread must wait before it exits, or a kernel could end before its predecessor.
__device__ __forceinline__ void wait_on_dependent_grids() {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

__device__ __forceinline__ void launch_and_wait_on_dependent_grids() {
    launch_dependent_grids();
    wait_on_dependent_grids();
}
