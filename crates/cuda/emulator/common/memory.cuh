// Polling yields to the threads that write; a poll by itself is no progress.
#pragma once
#include "builtins.h"

inline void store_relaxed(uint64_t* to, uint64_t word) {
    *to = word;
    emulator::block().move();
}

inline void store_relaxed(uint64_t* to, uint64_t first, uint64_t second) {
    if (reinterpret_cast<uintptr_t>(to) % 16 != 0) emulator::refuse("writes two words at an odd one");
    store_relaxed(to + 1, second);
    store_relaxed(to, first);
}

inline void prefetch_l2(const void*) {}

inline void load_relaxed(uint64_t (&words)[2], const uint64_t* from) {
    if (reinterpret_cast<uintptr_t>(from) % 16 != 0) emulator::refuse("looks at two words at an odd one");
    emulator::block().pass({"words of other blocks", 0});
    words[0] = from[0];
    words[1] = from[1];
}

// Lanes are threads of their own here, and a vote would count as progress.
inline bool any_lane(bool looks) { return looks; }
