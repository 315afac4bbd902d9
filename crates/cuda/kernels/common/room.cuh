// Dynamic shared memory of kernels; launch/mod.rs has the same numbers.
#pragma once

// Two blocks per SM.
constexpr int kHalfRoom = 115712;
// One block per SM, beside small blocks of the previous and the next kernel.
constexpr int kMostRoom = 221184;
// One block per SM.
constexpr int kWholeRoom = 232448;
// One block on GPUs other than Hopper: what the smallest of them have (8.6, 8.9, 12.0).
constexpr int kSmallRoom = 101376;
// As much as 8.0 has, for heads that do not fit otherwise.
constexpr int kMiddleRoom = 166912;
