// Order between kernels that follow each other: the one before may end as late as somebody waits for it.
#pragma once
#include "builtins.h"

inline void let_successor_begin() {}
inline void wait_for_predecessor() { emulator::block().follow(); }
inline void begin_after_predecessor() { wait_for_predecessor(); }
