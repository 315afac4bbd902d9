// Order between kernels that follow each other: the one before may end as late as somebody waits for it.
#pragma once
#include "builtins.h"

// The first thread of a block that says so says it for the whole block.
inline void let_successor_begin() {
    if (emulator::on_let_in) emulator::on_let_in();
}
inline void wait_for_predecessor() { emulator::block().follow(); }
inline void begin_after_predecessor() { wait_for_predecessor(); }
