// Blocks of a cluster: a place in another block's shared memory is its number and the address there.
#pragma once
#include "builtins.h"

inline uint32_t cluster_size() { return emulator::block().grid.cluster; }
inline uint32_t cluster_rank() { return emulator::block().index.x % cluster_size(); }

inline void greet_cluster() {
    emulator::Cluster& cluster = *emulator::block().cluster;
    emulator::Thread& thread = emulator::thread();
    if (thread.greeted > thread.waited) emulator::refuse("greets its cluster twice and has not waited");
    thread.greeted = cluster.turn + 1;
    ++cluster.come;
    cluster.look();
    emulator::block().move();
}

inline void wait_for_cluster() {
    emulator::Thread& thread = emulator::thread();
    if (thread.greeted == thread.waited) emulator::refuse("waits for a cluster that it has not greeted");
    const emulator::Cluster& cluster = *emulator::block().cluster;
    thread.waited = thread.greeted;
    const uint64_t turn = thread.greeted;
    emulator::block().wait({"its cluster, turn", turn}, [&cluster, turn] { return cluster.turn >= turn; });
}

inline void meet_cluster() {
    greet_cluster();
    wait_for_cluster();
}

constexpr uint32_t kRankShift = 24;

inline uint32_t address_in(uint32_t rank, uint32_t address) { return (rank + 1) << kRankShift | address; }

template <class... Floats>
inline void store_there(uint32_t address, Floats... values) {
    if (address >> kRankShift == 0) emulator::refuse("writes to %u, which is in no other block", address);
    const uint32_t rank = (address >> kRankShift) - 1, within = address & ((1u << kRankShift) - 1);
    const float all[] = {values...};
    memcpy(emulator::at_shared_of(rank, within, sizeof all, sizeof all), all, sizeof all);
}
