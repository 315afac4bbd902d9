// Kernels run one after the other here: each begins when its predecessor has ended.
#pragma once

inline void let_successor_begin() {}
inline void wait_for_predecessor() {}
inline void begin_after_predecessor() {}
