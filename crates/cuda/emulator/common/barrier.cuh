// Barriers in shared memory as a count of arrivals and bytes that are still to come.
#pragma once
#include "copy.cuh"

struct Barrier {
    // Arrivals of a phase, those that lack, and bytes that lack, which may come before they are announced.
    uint64_t arrivals : 11;
    int64_t lacking : 12;
    uint64_t phase : 1;
    uint64_t mark : 8;
    int64_t bytes : 32;

    static constexpr uint64_t kInitialised = 0xb5;

    void init(uint32_t count) {
        shared_address(this);
        *this = {count, static_cast<int64_t>(count), 0, kInitialised, 0};
    }

    // One arrival, after which so many bytes are still to come.
    void expect(uint32_t count) { change(1, count); }

    void arrive() { change(1, 0); }

    // Bytes that a copy has brought.
    void complete(uint32_t count) { change(0, -static_cast<int64_t>(count)); }

    void wait(uint32_t parity) const {
        const uint32_t address = shared_address(this);
        if (mark != kInitialised) emulator::refuse("waits at %u, where no barrier is", address);
        const auto ready = [this, parity] { return phase != parity; };
        emulator::block().wait({"a phase of the barrier at shared address", address}, ready);
    }

private:
    void change(uint32_t arrived, int64_t more) {
        if (mark != kInitialised) emulator::refuse("arrives at %u, where no barrier is", shared_address(this));
        lacking -= arrived;
        bytes += more;
        if (lacking < 0) emulator::refuse("arrives at barrier %u, which has all arrivals", shared_address(this));
        if (lacking == 0 && bytes == 0) {
            phase ^= 1;
            lacking = arrivals;
        }
        emulator::block().move();
    }
};
static_assert(sizeof(Barrier) == 8, "as on the GPU");

inline void publish_barriers() {}
inline void publish_shared() {}

inline emulator::Reason numbered(uint32_t number) { return {"the barrier of number", number}; }

inline void meet(uint32_t number, uint32_t threads) {
    emulator::Block& block = emulator::block();
    block.meet(block.numbered[number], threads, numbered(number), [](void**) {});
}

inline void announce(uint32_t number, uint32_t threads) {
    emulator::Meeting& meeting = emulator::block().numbered[number];
    if (emulator::block().arrive(meeting, threads, numbered(number))) ++meeting.turn;
}
