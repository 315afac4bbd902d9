// Dynamic shared memory that kernels are launched with, the same numbers as launch/mod.rs has.
#pragma once

// Two blocks a multiprocessor.
constexpr int kHalfRoom = 115712;
// One block, and some small ones of the neighbours in time.
constexpr int kMostRoom = 221184;
// One block.
constexpr int kWholeRoom = 232448;
