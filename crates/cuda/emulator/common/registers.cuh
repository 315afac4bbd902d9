// Fibers have no registers to move.
#pragma once

template <int kCount>
inline void warpgroup_reg_dealloc() {}

template <int kCount>
inline void warpgroup_reg_alloc() {}
