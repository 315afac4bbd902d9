// Barriers in shared memory as a count of arrivals and bytes that are still to come.
#pragma once
#include "copy.cuh"

struct Barrier {
    // Arrivals of a phase, those that are missing, and missing bytes, which may come before they are expected.
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

    // One arrival, plus bytes that the phase then waits for.
    void arrive_and_expect_tx(uint32_t count) { change(1, count); }

    void arrive() { change(1, 0); }

    // Completes bytes of a copy.
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

inline emulator::Reason numbered(uint32_t number) { return {"named barrier", number}; }

inline void named_barrier_sync(uint32_t number, uint32_t threads) {
    emulator::Block& block = emulator::block();
    block.synchronise(block.numbered[number], threads, numbered(number), [](void**) {});
}

inline void named_barrier_arrive(uint32_t number, uint32_t threads) {
    emulator::Rendezvous& rendezvous = emulator::block().numbered[number];
    if (emulator::block().arrive(rendezvous, threads, numbered(number))) ++rendezvous.turn;
}
