// Order between kernels that follow each other.
//
// A kernel begins while its predecessor still runs. Before it waits it may read what no kernel of the step writes:
// weights, staged inputs, the page table, keys and values of earlier steps (`resolve_tokens` or `open_step` opens a step and
// begins late). Plans of attention are written in a step, but their kernel lets nobody begin before it has ended, or only a
// product that lets nobody begin before that (`holds_back`).
#pragma once

// The first thread of a block that says so says it for the whole block.
__device__ __forceinline__ void let_successor_begin() {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

// Every thread that exits has waited: else a kernel could end before its predecessor.
__device__ __forceinline__ void wait_for_predecessor() {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

__device__ __forceinline__ void begin_after_predecessor() {
    let_successor_begin();
    wait_for_predecessor();
}
