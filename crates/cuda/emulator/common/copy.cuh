// Copies land when a thread waits for them, as late as possible; until then their destination is poisoned.
#pragma once
#include "builtins.h"

inline uint32_t shared_address(const void* pointer) { return emulator::shared_offset(pointer); }

// A null source copies zeros.
template <int kBytes>
inline void copy_later(uint32_t to, const void* from) {
    if (reinterpret_cast<uintptr_t>(from) % kBytes != 0) emulator::refuse("copies %d bytes from %p", kBytes, from);
    uint8_t* place = emulator::at_shared(to, kBytes, kBytes);
    memset(place, emulator::kPoison, kBytes);
    emulator::thread().copies.push_back({place, from, kBytes});
}

inline void cp_async16(uint32_t to, const void* from) { copy_later<16>(to, from); }

inline void cp_async16(uint32_t to, const void* from, bool valid) { cp_async16(to, valid ? from : nullptr); }

template <int kBytes>
inline void cp_async(void* to, const void* from) {
    copy_later<kBytes>(shared_address(to), from);
}

inline void cp_async_commit() {
    emulator::Thread& thread = emulator::thread();
    thread.groups.push_back(std::move(thread.copies));
    thread.copies.clear();
}

template <int kPending>
inline void cp_async_wait() {
    auto& groups = emulator::thread().groups;
    for (; groups.size() > kPending; groups.pop_front()) {
        for (const emulator::Copy& copy : groups.front()) copy.land();
    }
}
