// Epoch-tagged messages from one stage to the next: every word carries data and an epoch. Readers poll the data itself; a
// separate flag would cost two more round trips through L2.
#pragma once
#include "../common/memory.cuh"
#include "ring.cuh"

// Words per row, as megakernel/mod.rs has them: pairs of results, and sums of squares.
constexpr uint32_t kResultWords = 1 << 15;
constexpr uint32_t kSquareWords = 1 << 12;
// Rows that the megakernel takes.
constexpr uint32_t kMostRows = 2;

__device__ __forceinline__ void send(uint64_t* to, uint32_t data, uint32_t epoch) {
    store_relaxed(to, static_cast<uint64_t>(epoch) << 32 | data);
}

__device__ __forceinline__ void send_pair(uint64_t* to, float first, float second, uint32_t epoch) {
    const uint64_t upper = static_cast<uint64_t>(epoch) << 32;
    store_relaxed(to, upper | __float_as_uint(first), upper | __float_as_uint(second));
}

// Two neighbouring words.
struct MessagePair {
    uint64_t words[2];

    __device__ __forceinline__ void load(const uint64_t* at) { load_relaxed(words, at); }

    __device__ __forceinline__ bool have_epoch(uint32_t epoch) const {
        return static_cast<uint32_t>(words[0] >> 32) == epoch && static_cast<uint32_t>(words[1] >> 32) == epoch;
    }

    __device__ __forceinline__ uint2 data() const {
        return {static_cast<uint32_t>(words[0]), static_cast<uint32_t>(words[1])};
    }
};

// Receives `count` pairs of words from `from` on, `kStep` words apart, `kAtOnce` at a time; calls `take(turn, data)`. `most` is
// the largest `count` of a lane: lanes stay converged, since lanes that leave alone would be serialised.
template <int kAtOnce, int kStep, class Take>
__device__ __forceinline__ void receive(const uint64_t* from, uint32_t count, uint32_t most, uint32_t epoch, Take take) {
#pragma unroll 1
    for (uint32_t turn = 0; turn < most; turn += kAtOnce, from += kAtOnce * kStep) {
        MessagePair some[kAtOnce];
        bool lacks[kAtOnce];
#pragma unroll
        for (int i = 0; i < kAtOnce; ++i) lacks[i] = turn + i < count;
        bool waits;
#pragma unroll 1
        do {
            waits = false;
#pragma unroll
            for (int i = 0; i < kAtOnce; ++i) {
                if (lacks[i]) some[i].load(from + i * kStep);
            }
#pragma unroll
            for (int i = 0; i < kAtOnce; ++i) {
                lacks[i] = lacks[i] && !some[i].have_epoch(epoch);
                waits = waits || lacks[i];
            }
        } while (any_lane(waits));
#pragma unroll
        for (int i = 0; i < kAtOnce; ++i) {
            if (turn + i < count) take(turn + i, some[i].data());
        }
    }
}

// Message buffers of the current stage. The first stage of a launch receives none, the last one sends none.
struct Messages {
    const uint64_t* from_results;
    const uint64_t* from_squares;
    uint64_t* to_results;
    uint64_t* to_squares;
    uint32_t from_epoch;
    uint32_t to_epoch;

    __device__ Messages(const MegakernelParams& p, uint32_t stage, uint32_t epoch) {
        // Triple-buffered: an attention block hears from few others, so a slow block may still read the previous stage.
        const uint32_t from = (stage + 2) % 3 * kMostRows, to = stage % 3 * kMostRows;
        const bool has_some = stage > 0, sends = stage + 1 < p.count;
        from_results = has_some ? p.results + from * kResultWords : nullptr;
        from_squares = has_some ? p.squares + from * kSquareWords : nullptr;
        to_results = sends ? p.results + to * kResultWords : nullptr;
        to_squares = sends ? p.squares + to * kSquareWords : nullptr;
        from_epoch = epoch + stage;
        to_epoch = epoch + stage + 1;
    }

    // Results `at` (even) and `at + 1`.
    __device__ __forceinline__ void send_results(uint32_t row, uint32_t at, uint32_t pair) const {
        send(to_results + row * kResultWords + at / 2, pair, to_epoch);
    }
};
