// Programmatic dependent launch: the previous kernel may end as late as a thread waits for it.
#pragma once
#include "builtins.h"

inline void launch_dependent_grids() {}
inline void wait_on_dependent_grids() { emulator::block().follow(); }
inline void launch_and_wait_on_dependent_grids() { wait_on_dependent_grids(); }
