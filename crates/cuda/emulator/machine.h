// A machine that runs CUDA kernels on the host, so that their logic is tested where there is no GPU.
//
// Every CUDA thread is a fiber, every block a thread of the host with shared memory of its own. All blocks of a grid are
// there at the same time, as those of chains must be, but one fiber runs at a time and in a fixed order: what happens
// once happens again.
#pragma once
#include <csetjmp>
#include <cstdint>
#include <deque>
#include <functional>
#include <vector>

#include <ucontext.h>

namespace emulator {

// Fills what nobody has written: not a number, as a float of any width.
constexpr uint8_t kPoison = 0xff;
// More than any GPU has; what a kernel did not ask for must stay poisoned.
constexpr uint32_t kSharedBytes = 256 << 10;
constexpr uint32_t kWarp = 32;

struct Index {
    unsigned x, y, z;
};

// What a thread waits for, in words and with the number of it.
struct Reason {
    const char* what;
    uint64_t which;
};

// Threads that wait for each other.
struct Meeting {
    uint32_t count = 0;
    uint32_t members = 0;
    uint64_t turn = 0;
    const char* what = nullptr;
    // What each lane of a warp brings.
    void* parts[kWarp] = {};
};

// A copy to shared memory that is under way; from nowhere come zeros.
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
    // While it waits: the reason, and whether the wait is over. Without a question it only lets others go first.
    Reason reason{};
    bool (*is_ready)(const void*) = nullptr;
    const void* question = nullptr;
    // It knows that the kernel before has ended.
    bool follows = false;
    // Turns of its cluster's meeting that it has come to, and waited for.
    uint64_t greeted = 0;
    uint64_t waited = 0;
    // Copies that were not committed, and groups of those that were.
    std::vector<Copy> copies;
    std::deque<std::vector<Copy>> groups;
    // The same of products of its warpgroup.
    std::vector<std::function<void()>> products;
    std::deque<std::vector<std::function<void()>>> product_groups;
};

// The order in which threads take turns and copies land; what a kernel finds may not depend on it. Where it is backward,
// the last block is late: it takes a single step whenever the others have gone as far as they can. Where it is shuffled, a
// warp of each block sleeps until all other warps and blocks have done so.
enum class Order { kForward, kBackward, kShuffled };

struct Grid {
    uint32_t blocks;
    uint32_t threads;
    uint32_t shared_bytes;
    Order order = Order::kForward;
    // What the kernel before this one does, at the latest time: when no thread of a block gets any further without it. Then
    // every thread must wait for it. None where that one has ended.
    std::function<void()> predecessor = nullptr;
    // Blocks in a row that see each other's shared memory.
    uint32_t cluster = 1;
    // Blocks on y for each one on x.
    uint32_t each = 1;

    uint32_t all() const { return blocks * each; }
};

// Threads of blocks that see each other's shared memory: those that have not ended meet.
struct Cluster {
    std::vector<class Block*> blocks;
    uint32_t alive = 0;
    uint32_t come = 0;
    uint64_t turn = 0;

    // Ends a turn where all are there.
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
    std::vector<Meeting> warps;
    Meeting everyone;
    Meeting numbered[16];
    // Of at most 1024 threads, 128 each.
    Meeting warpgroups[8];
    Cluster* cluster = nullptr;
    // Where its shared memory lies.
    uint8_t* memory = nullptr;

    Block(uint32_t number, const Grid& grid, const std::function<void()>& kernel);
    ~Block();
    Block(const Block&) = delete;

    // Gives every thread a turn, or turns until none gets any further.
    void go(bool only_one_turn);
    bool has_ended() const { return left_ == 0; }
    bool has_begun() const { return has_begun_; }
    // True when something happened since the last time one asked.
    bool take_moved();
    // Prints which threads wait and for what.
    void explain() const;

    // Something happened that others may wait for.
    void move() { moved_ = true; }
    // Lets other threads go first.
    void pass(Reason reason);
    // Lets other threads go first until `ready` says so.
    template <class Ready>
    void wait(Reason reason, const Ready& ready) {
        running->is_ready = [](const void* question) { return (*static_cast<const Ready*>(question))(); };
        running->question = &ready;
        pass(reason);
    }
    // Waits until all members are there. The last one does `act` for all of them.
    template <class Act>
    void meet(Meeting& meeting, uint32_t members, Reason reason, const Act& act) {
        const uint64_t turn = meeting.turn;
        if (arrive(meeting, members, reason)) {
            act(meeting.parts);
            ++meeting.turn;
            return;
        }
        wait(reason, [&meeting, turn] { return meeting.turn != turn; });
    }
    // Counts one member more; true for the last one, who must begin the next turn.
    bool arrive(Meeting& meeting, uint32_t members, Reason reason);
    // Lets other threads go first until the kernel before has ended.
    void follow();
    // Does something when no thread gets any further without it: as late as copies may land, and in any order.
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
    // Lets another warp sleep, maybe; true when the last one has something to do.
    bool change_sleeper();
    void do_later();
    uint32_t random(uint32_t below);
    static void begin();
};

// The block whose thread runs.
Block& block();
inline Thread& thread() { return *block().running; }
inline uint32_t lane() { return thread().index.x % kWarp; }

// All lanes of a warp bring a part, and the last one does `act` with the parts of all.
template <class Part, class Act>
void together(const char* what, Part& part, const Act& act) {
    const uint32_t warp = thread().index.x / kWarp;
    Meeting& meeting = block().warps[warp];
    meeting.parts[lane()] = &part;
    block().meet(meeting, kWarp, {what, warp}, [&](void** parts) { act(reinterpret_cast<Part**>(parts)); });
}

// A place in shared memory as kernels count it, and the way back; both refuse what lies outside.
uint32_t shared_offset(const void* pointer);
uint8_t* at_shared(uint32_t address, uint32_t bytes, uint32_t alignment);
// The same in another block of the cluster, which must run.
uint8_t* at_shared_of(uint32_t rank, uint32_t address, uint32_t bytes, uint32_t alignment);

// Ends the program with a sentence that names block and thread.
[[noreturn]] void refuse(const char* format, ...) __attribute__((format(printf, 1, 2)));

// Runs a kernel; ends the program when it gets nowhere.
void launch(const Grid& grid, const std::function<void()>& kernel);

}  // namespace emulator
