// Dynamic shared memory that kernels are launched with, the same numbers as launch/mod.rs has.
#pragma once

// Two blocks a multiprocessor.
constexpr int kHalfRoom = 115712;
// One block, and some small ones of the neighbours in time.
constexpr int kMostRoom = 221184;
// One block.
constexpr int kWholeRoom = 232448;
// One block on GPUs that are not Hopper's kind: all that the smallest of them have (8.6, 8.9, 12.0).
constexpr int kSmallRoom = 101376;
// As much as 8.0 has, for heads that do not fit into less.
constexpr int kMiddleRoom = 166912;
