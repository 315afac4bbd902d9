// Fibers have no registers to move.
#pragma once

template <int kCount>
inline void give_up_registers() {}

template <int kCount>
inline void take_registers() {}
