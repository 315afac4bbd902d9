// Copies land when a thread waits for them, as late as they may; until then their place is poisoned.
#pragma once
#include "builtins.h"

inline uint32_t shared_address(const void* pointer) { return emulator::shared_offset(pointer); }

inline void copy16(uint32_t to, const void* from, bool valid) {
    if (valid && reinterpret_cast<uintptr_t>(from) % 16 != 0) emulator::refuse("copies sixteen bytes from %p", from);
    uint8_t* place = emulator::at_shared(to, 16, 16);
    memset(place, emulator::kPoison, 16);
    emulator::thread().copies.push_back({place, valid ? from : nullptr, 16});
}

inline void copy16(uint32_t to, const void* from) { copy16(to, from, true); }

template <int kBytes>
inline void copy_few(void* to, const void* from) {
    if (reinterpret_cast<uintptr_t>(from) % kBytes != 0) emulator::refuse("copies %d bytes from %p", kBytes, from);
    uint8_t* place = emulator::at_shared(shared_address(to), kBytes, kBytes);
    memset(place, emulator::kPoison, kBytes);
    emulator::thread().copies.push_back({place, from, kBytes});
}

inline void commit_copies() {
    emulator::Thread& thread = emulator::thread();
    thread.groups.push_back(std::move(thread.copies));
    thread.copies.clear();
}

template <int kPending>
inline void wait_copies() {
    auto& groups = emulator::thread().groups;
    for (; groups.size() > kPending; groups.pop_front()) {
        for (const emulator::Copy& copy : groups.front()) copy.land();
    }
}
