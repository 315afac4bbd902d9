// Thread block clusters: an address in another block's shared memory is the block's rank and the address there.
#pragma once
#include "barrier.cuh"

inline uint32_t cluster_size() { return emulator::block().grid.cluster; }
inline uint32_t cluster_rank() { return emulator::block().index.x % cluster_size(); }

inline void cluster_arrive() {
    emulator::Cluster& cluster = *emulator::block().cluster;
    emulator::Thread& thread = emulator::thread();
    if (thread.greeted > thread.waited) emulator::refuse("greets its cluster twice and has not waited");
    thread.greeted = cluster.turn + 1;
    ++cluster.come;
    cluster.look();
    emulator::block().move();
}

inline void cluster_wait() {
    emulator::Thread& thread = emulator::thread();
    if (thread.greeted == thread.waited) emulator::refuse("waits for a cluster that it has not greeted");
    const emulator::Cluster& cluster = *emulator::block().cluster;
    thread.waited = thread.greeted;
    const uint64_t turn = thread.greeted;
    emulator::block().wait({"its cluster barrier, phase", turn}, [&cluster, turn] { return cluster.turn >= turn; });
}

constexpr uint32_t kRankShift = 24;

inline uint32_t map_to_rank(uint32_t rank, uint32_t address) { return (rank + 1) << kRankShift | address; }

// The host address of a mapped address.
inline uint8_t* there(uint32_t address, uint32_t bytes, uint32_t alignment) {
    if (address >> kRankShift == 0) emulator::refuse("means %u, which is in no other block", address);
    return emulator::at_shared_of((address >> kRankShift) - 1, address & ((1u << kRankShift) - 1), bytes, alignment);
}

inline void bulk_copy_to_rank(uint32_t to, const void* from, uint32_t bytes, uint32_t barrier) {
    if (bytes % 16 != 0) emulator::refuse("copies %u bytes to another block", bytes);
    memcpy(there(to, bytes, 16), emulator::at_shared(shared_address(from), bytes, 16), bytes);
    reinterpret_cast<Barrier*>(there(barrier, sizeof(Barrier), sizeof(Barrier)))->complete(bytes);
}
