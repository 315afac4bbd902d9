// Order between kernels that follow each other: the one before may end as late as somebody waits for it.
#pragma once
#include "builtins.h"

inline void let_successor_begin() {}
inline void wait_for_predecessor() { emulator::block().follow(); }
// Of some blocks it is true, of others not.
inline bool need_not_wait_for_predecessor() {
    wait_for_predecessor();
    return blockIdx.x % 2;
}
inline void begin_after_predecessor() { wait_for_predecessor(); }
