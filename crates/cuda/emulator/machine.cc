#include "machine.h"

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <numeric>
#include <semaphore>
#include <thread>
#include <utility>

#include <sys/mman.h>
#include <unistd.h>

// thread_local: a block is a thread of the host. Kernels declare it themselves.
alignas(1024) thread_local uint8_t shared[emulator::kSharedBytes];
// What templates of kernels call before they use it, under the name that compilers have for it.
extern "C" void begin_shared() __asm__("_ZTH6shared");
void begin_shared() {}

namespace emulator {
namespace {

constexpr size_t kStack = 128 << 10, kGuard = 16 << 10;
// Rounds without progress before the program gives up: threads that poll for messages see them a few rounds late.
constexpr int kPatience = 2000;
// Seconds until the system ends a program whose kernel never yields.
constexpr unsigned kLongest = 300;

thread_local Block* current = nullptr;
// The previous kernel, while it has not ended.
std::function<void()> predecessor;

// The host thread of the running block.
struct Stage {
    std::unique_ptr<Block> block;
    std::binary_semaphore turn{0};
    std::thread host;
};

void check_rest(const Grid& grid) {
    for (uint32_t i = grid.shared_bytes; i < kSharedBytes; ++i) {
        if (shared[i] == kPoison) continue;
        fprintf(stderr, "block %u wrote shared address %u, but has %u bytes\n", block().index.x, i, grid.shared_bytes);
        _Exit(1);
    }
}

bool is_late(const Grid& grid, uint32_t number) {
    return grid.order == Order::kBackward && grid.all() > 1 && number + 1 == grid.all();
}

[[noreturn]] void give_up(const std::vector<Stage>& stages) {
    fprintf(stderr, "deadlock:\n");
    for (const Stage& stage : stages) stage.block->explain();
    _Exit(1);
}

}  // namespace

Block& block() { return *current; }

void Copy::land() const {
    if (from) {
        memcpy(to, from, bytes);
    } else {
        memset(to, 0, bytes);
    }
}

Block::Block(uint32_t number, const Grid& of, const std::function<void()>& kernel)
    : index{number % of.blocks, number / of.blocks, 0},
      grid(of),
      warps(of.threads / kWarp),
      kernel_(kernel),
      threads_(of.threads),
      order_(of.threads),
      left_(of.threads),
      random_(number * 2654435761u) {
    void* room = mmap(nullptr, kStack * of.threads, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (room == MAP_FAILED) {
        perror("stacks of threads");
        _Exit(1);
    }
    stacks_ = static_cast<uint8_t*>(room);
    std::iota(order_.begin(), order_.end(), 0);
    if (of.order == Order::kBackward) std::reverse(order_.begin(), order_.end());
    if (of.order == Order::kShuffled) asleep_ = random(warps.size());
    for (uint32_t i = 0; i < of.threads; ++i) {
        Thread& thread = threads_[i];
        uint8_t* stack = stacks_ + i * kStack;
        mprotect(stack, kGuard, PROT_NONE);
        thread.index = {i, 0, 0};
        getcontext(&thread.start);
        thread.start.uc_stack.ss_sp = stack + kGuard;
        thread.start.uc_stack.ss_size = kStack - kGuard;
        thread.start.uc_link = nullptr;
        makecontext(&thread.start, begin, 0);
    }
}

Block::~Block() { munmap(stacks_, kStack * threads_.size()); }

void Block::begin() {
    Block& self = block();
    self.kernel_();
    if (self.grid.predecessor && !self.running->follows) refuse("ends, maybe before the kernel before");
    const auto are_left = [](const std::vector<Copy>& copies) { return !copies.empty(); };
    const Thread& thread = *self.running;
    if (are_left(thread.copies) || std::any_of(thread.groups.begin(), thread.groups.end(), are_left)) {
        refuse("ends before its copies have landed");
    }
    self.running->ended = true;
    --self.left_;
    Cluster& cluster = *self.cluster;
    if (thread.greeted > cluster.turn) --cluster.come;
    --cluster.alive;
    cluster.look();
    self.move();
    _longjmp(self.director_, 1);
}

void Block::resume(Thread& thread) {
    running = &thread;
    has_begun_ = true;
    thread.is_ready = nullptr;
    if (_setjmp(director_) != 0) return;
    if (thread.begun) _longjmp(thread.place, 1);
    thread.begun = true;
    setcontext(&thread.start);
}

void Block::pass(Reason reason) {
    running->reason = reason;
    // Without the system calls of swapcontext, which would take most of the time.
    if (_setjmp(running->place) == 0) _longjmp(director_, 1);
}

void Block::go(bool only_one_turn) {
    for (bool before = moved_, again = true; again; before = moved_) {
        moved_ = false;
        if (grid.order == Order::kShuffled) shuffle();
        for (uint32_t i : order_) {
            Thread& thread = threads_[i];
            if (thread.ended || is_asleep(i) || (thread.is_ready && !thread.is_ready(thread.question))) continue;
            moved_ = moved_ || thread.is_ready;
            resume(thread);
        }
        if (!moved_ && !later_.empty()) do_later();
        again = moved_ && !only_one_turn;
        moved_ = moved_ || before || (grid.order == Order::kShuffled && !again && change_sleeper());
    }
}

void Block::shuffle() {
    for (uint32_t i = order_.size() - 1; i > 0; --i) std::swap(order_[i], order_[random(i + 1)]);
}

bool Block::change_sleeper() {
    bool has_work = false;
    for (uint32_t i = 0; i < threads_.size(); ++i) {
        const Thread& thread = threads_[i];
        has_work |= is_asleep(i) && !thread.ended && (!thread.begun || (thread.is_ready && thread.is_ready(thread.question)));
    }
    // Often the same: other blocks may get far meanwhile.
    if (random(4) == 0) asleep_ = random(warps.size());
    return has_work;
}

void Block::do_later() {
    const uint32_t most = later_.size() - 1;
    const uint32_t which = grid.order == Order::kForward ? 0 : grid.order == Order::kBackward ? most : random(most + 1);
    const std::function<void()> act = std::move(later_[which]);
    later_.erase(later_.begin() + which);
    act();
}

uint32_t Block::random(uint32_t below) {
    random_ = random_ * 1664525 + 1013904223;
    // Its high bits: low ones come again soon.
    return static_cast<uint64_t>(random_) * below >> 32;
}

bool Block::take_moved() { return std::exchange(moved_, false); }

bool Block::arrive(Rendezvous& rendezvous, uint32_t members, Reason reason) {
    if (rendezvous.count == 0) {
        rendezvous.what = reason.what;
        rendezvous.members = members;
    }
    if (rendezvous.what != reason.what) refuse("arrives for %s where others wait for %s", reason.what, rendezvous.what);
    if (rendezvous.members != members) refuse("synchronises %u threads where others synchronise %u", members, rendezvous.members);
    move();
    if (++rendezvous.count < members) return false;
    rendezvous.count = 0;
    return true;
}

void Block::follow() {
    running->follows = true;
    if (!predecessor) return;
    later([this] {
        if (const auto act = std::exchange(predecessor, nullptr)) act();
        move();
    });
    wait({"the previous kernel", 0}, [] { return !predecessor; });
}

void Block::explain() const {
    for (uint32_t i = 0; i < threads_.size();) {
        const Thread& first = threads_[i];
        uint32_t end = i + 1;
        const auto alike = [&](const Thread& other) {
            return other.ended == first.ended && other.reason.what == first.reason.what &&
                   other.reason.which == first.reason.which;
        };
        while (end < threads_.size() && alike(threads_[end])) ++end;
        if (!first.ended) {
            fprintf(stderr, "  block %u, threads %u to %u wait for %s (%llu)\n", index.x, i, end - 1, first.reason.what,
                    static_cast<unsigned long long>(first.reason.which));
        }
        i = end;
    }
}

uint32_t shared_offset(const void* pointer) {
    const ptrdiff_t offset = static_cast<const uint8_t*>(pointer) - shared;
    if (offset < 0 || offset >= block().grid.shared_bytes) refuse("%p is not in this block's shared memory", pointer);
    return static_cast<uint32_t>(offset);
}

uint8_t* at_shared(uint32_t address, uint32_t bytes, uint32_t alignment) {
    const uint32_t most = block().grid.shared_bytes;
    if (address > most || bytes > most - address) refuse("shared address %u is beyond %u bytes", address, most);
    if (address % alignment != 0) refuse("shared address %u is no multiple of %u", address, alignment);
    return shared + address;
}

uint8_t* at_shared_of(uint32_t rank, uint32_t address, uint32_t bytes, uint32_t alignment) {
    const Cluster& cluster = *block().cluster;
    if (rank >= cluster.blocks.size()) refuse("there is no block %u in its cluster", rank);
    const Block& other = *cluster.blocks[rank];
    if (!other.has_begun()) refuse("writes to block %u, which has not begun", other.index.x);
    if (other.has_ended()) refuse("writes to block %u, which has ended", other.index.x);
    return other.memory + (at_shared(address, bytes, alignment) - block().memory);
}

void refuse(const char* format, ...) {
    fprintf(stderr, "block %u, thread %u: ", block().index.x, thread().index.x);
    va_list facts;
    va_start(facts, format);
    vfprintf(stderr, format, facts);
    va_end(facts);
    fputc('\n', stderr);
    _Exit(1);
}

void launch(const Grid& grid, const std::function<void()>& kernel) {
    alarm(kLongest);
    predecessor = grid.predecessor;
    std::vector<Stage> stages(grid.all());
    std::vector<Cluster> clusters(grid.all() / grid.cluster);
    std::binary_semaphore director{0};
    for (uint32_t i = 0; i < grid.all(); ++i) {
        Stage& stage = stages[i];
        stage.block = std::make_unique<Block>(i, grid, kernel);
        Cluster& cluster = clusters[i / grid.cluster];
        cluster.blocks.push_back(stage.block.get());
        cluster.alive += grid.threads;
        stage.block->cluster = &cluster;
        stage.host = std::thread([&stage, &director, &grid, i] {
            current = stage.block.get();
            current->memory = shared;
            memset(shared, kPoison, sizeof shared);
            while (!current->has_ended()) {
                stage.turn.acquire();
                current->go(is_late(grid, i));
                if (current->has_ended()) check_rest(grid);
                director.release();
            }
        });
    }
    int idle = 0;
    for (uint32_t left = grid.all(); left > 0;) {
        bool moved = false;
        for (uint32_t i = 0; i < grid.all(); ++i) {
            Stage& stage = stages[i];
            if (stage.block->has_ended() || (is_late(grid, i) && moved)) continue;
            stage.turn.release();
            director.acquire();
            moved |= stage.block->take_moved();
            if (stage.block->has_ended()) --left;
        }
        idle = moved ? 0 : idle + 1;
        if (idle > kPatience) give_up(stages);
    }
    for (Stage& stage : stages) stage.host.join();
    alarm(0);
}

}  // namespace emulator
