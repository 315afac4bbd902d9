// A machine that runs CUDA kernels on the host, so that their logic is tested where there is no GPU.
//
// Every CUDA thread is a fiber, every block a host thread with shared memory of its own. All blocks of a grid are resident at
// the same time, as the megakernel requires, but one fiber runs at a time and in a fixed order, so runs are reproducible.
#pragma once
#include <csetjmp>
#include <cstdint>
#include <deque>
#include <functional>
#include <vector>

#include <ucontext.h>

namespace emulator {

// Fills uninitialised memory: a NaN, as a float of any width.
constexpr uint8_t kPoison = 0xff;
// More than any GPU has; what a kernel did not ask for must stay poisoned.
constexpr uint32_t kSharedBytes = 256 << 10;
constexpr uint32_t kWarp = 32;

struct Index {
    unsigned x, y, z;
};

// What a thread waits for, in words and with its number.
struct Reason {
    const char* what;
    uint64_t which;
};

// Threads that wait for each other.
struct Rendezvous {
    uint32_t count = 0;
    uint32_t members = 0;
    uint64_t turn = 0;
    const char* what = nullptr;
    // The operand of each lane of a warp.
    void* parts[kWarp] = {};
};

// A copy to shared memory in flight; a null source copies zeros.
struct Copy {
    uint8_t* to;
    const void* from;
    uint32_t bytes;

    void land() const;
};

struct Thread {
    Index index{};
    ucontext_t start{};
    jmp_buf place{};
    bool begun = false;
    bool ended = false;
    // While it waits: the reason, and whether the wait is over. Without a predicate it only yields.
    Reason reason{};
    bool (*is_ready)(const void*) = nullptr;
    const void* question = nullptr;
    // It has seen the previous kernel's end.
    bool follows = false;
    // Cluster barrier phases that it has arrived at, and waited for.
    uint64_t greeted = 0;
    uint64_t waited = 0;
    // Copies that were not committed, and groups of those that were.
    std::vector<Copy> copies;
    std::deque<std::vector<Copy>> groups;
    // The same of MMAs of its warpgroup.
    std::vector<std::function<void()>> products;
    std::deque<std::vector<std::function<void()>>> product_groups;
};

// The order in which threads run and copies land; results must not depend on it. kBackward: the last block is slow, it takes a
// single step whenever the others can go no further. kShuffled: a warp of each block sleeps until all other warps and blocks
// are blocked.
enum class Order { kForward, kBackward, kShuffled };

struct Grid {
    uint32_t blocks;
    uint32_t threads;
    uint32_t shared_bytes;
    Order order = Order::kForward;
    // The previous kernel's effects, as late as possible: applied when no thread of a block gets any further without them. Then
    // every thread must wait for it. Empty where that kernel has ended.
    std::function<void()> predecessor = nullptr;
    // Consecutive blocks of a cluster.
    uint32_t cluster = 1;
    // Blocks on y for each one on x.
    uint32_t each = 1;

    uint32_t all() const { return blocks * each; }
};

// Threads of a cluster's blocks: those that have not exited synchronise.
struct Cluster {
    std::vector<class Block*> blocks;
    uint32_t alive = 0;
    uint32_t come = 0;
    uint64_t turn = 0;

    // Ends a phase when all have arrived.
    void look() {
        if (alive == 0 || come < alive) return;
        come = 0;
        ++turn;
    }
};

class Block {
public:
    Index index;
    const Grid grid;
    Thread* running = nullptr;
    std::vector<Rendezvous> warps;
    Rendezvous everyone;
    Rendezvous numbered[16];
    // Of at most 1024 threads, 128 each.
    Rendezvous warpgroups[8];
    Cluster* cluster = nullptr;
    // Where its shared memory lies.
    uint8_t* memory = nullptr;

    Block(uint32_t number, const Grid& grid, const std::function<void()>& kernel);
    ~Block();
    Block(const Block&) = delete;

    // Runs every thread once, or until none gets any further.
    void go(bool only_one_turn);
    bool has_ended() const { return left_ == 0; }
    bool has_begun() const { return has_begun_; }
    // True when there was progress since the last call.
    bool take_moved();
    // Prints which threads wait and for what.
    void explain() const;

    // Records progress that others may wait for.
    void move() { moved_ = true; }
    // Yields to other threads.
    void pass(Reason reason);
    // Yields until `ready` says so.
    template <class Ready>
    void wait(Reason reason, const Ready& ready) {
        running->is_ready = [](const void* question) { return (*static_cast<const Ready*>(question))(); };
        running->question = &ready;
        pass(reason);
    }
    // Waits until all members have arrived. The last one runs `act` for all.
    template <class Act>
    void synchronise(Rendezvous& rendezvous, uint32_t members, Reason reason, const Act& act) {
        const uint64_t turn = rendezvous.turn;
        if (arrive(rendezvous, members, reason)) {
            act(rendezvous.parts);
            ++rendezvous.turn;
            return;
        }
        wait(reason, [&rendezvous, turn] { return rendezvous.turn != turn; });
    }
    // Counts one arrival; true for the last one, who must begin the next phase.
    bool arrive(Rendezvous& rendezvous, uint32_t members, Reason reason);
    // Yields until the previous kernel has ended.
    void follow();
    // Defers an action until no thread gets any further without it: as late as copies may land, in any order.
    void later(std::function<void()> act) { later_.push_back(std::move(act)); }

private:
    const std::function<void()>& kernel_;
    std::vector<Thread> threads_;
    std::vector<uint32_t> order_;
    uint32_t asleep_ = UINT32_MAX;
    std::vector<std::function<void()>> later_;
    uint8_t* stacks_;
    jmp_buf director_{};
    uint32_t left_;
    bool has_begun_ = false;
    uint32_t random_;
    bool moved_ = false;

    void resume(Thread& thread);
    void shuffle();
    bool is_asleep(uint32_t thread) const { return thread / kWarp == asleep_; }
    // May put another warp to sleep; true when the sleeping one has something to do.
    bool change_sleeper();
    void do_later();
    uint32_t random(uint32_t below);
    static void begin();
};

// The block whose thread runs.
Block& block();
inline Thread& thread() { return *block().running; }
inline uint32_t lane() { return thread().index.x % kWarp; }

// All lanes of a warp contribute an operand; the last one runs `act` with all of them.
template <class Part, class Act>
void together(const char* what, Part& part, const Act& act) {
    const uint32_t warp = thread().index.x / kWarp;
    Rendezvous& rendezvous = block().warps[warp];
    rendezvous.parts[lane()] = &part;
    block().synchronise(rendezvous, kWarp, {what, warp}, [&](void** parts) { act(reinterpret_cast<Part**>(parts)); });
}

// An address in shared memory as kernels see it, and its inverse; both refuse what is out of bounds.
uint32_t shared_offset(const void* pointer);
uint8_t* at_shared(uint32_t address, uint32_t bytes, uint32_t alignment);
// The same in another block of the cluster, which must be running.
uint8_t* at_shared_of(uint32_t rank, uint32_t address, uint32_t bytes, uint32_t alignment);

// Ends the program with a message that names block and thread.
[[noreturn]] void refuse(const char* format, ...) __attribute__((format(printf, 1, 2)));

// Runs a kernel; ends the program when it makes no progress.
void launch(const Grid& grid, const std::function<void()>& kernel);

}  // namespace emulator
