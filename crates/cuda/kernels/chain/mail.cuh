// What a link tells the next one: words of data that carry their age, so that readers wait for the data itself and not
// for a sign that it is there, which would take two more ways through memory.
#pragma once
#include "../common/memory.cuh"
#include "ring.cuh"

// Words of a row, as chain/mod.rs counts them: pairs of results, and sums of squares.
constexpr uint32_t kResultWords = 1 << 15;
constexpr uint32_t kSquareWords = 1 << 12;
// Rows of a chain.
constexpr uint32_t kMostRows = 2;

__device__ __forceinline__ void send(uint64_t* to, uint32_t data, uint32_t age) {
    store_relaxed(to, static_cast<uint64_t>(age) << 32 | data);
}

__device__ __forceinline__ void send_two(uint64_t* to, float first, float second, uint32_t age) {
    const uint64_t upper = static_cast<uint64_t>(age) << 32;
    store_relaxed(to, upper | __float_as_uint(first), upper | __float_as_uint(second));
}

// Two neighbouring words, as they are now.
struct TwoWords {
    uint64_t words[2];

    __device__ __forceinline__ void look(const uint64_t* at) { load_relaxed(words, at); }

    __device__ __forceinline__ bool are_of(uint32_t age) const {
        return static_cast<uint32_t>(words[0] >> 32) == age && static_cast<uint32_t>(words[1] >> 32) == age;
    }

    __device__ __forceinline__ uint2 data() const {
        return {static_cast<uint32_t>(words[0]), static_cast<uint32_t>(words[1])};
    }
};

// Receives two words each from `from` on, `kStep` words apart and `count` times, some at a time: `take` gets turn and data.
// Lanes, of which one has `most`, go on together: those that left alone would be waited for one after the other.
template <int kAtOnce, int kStep, class Take>
__device__ __forceinline__ void receive(const uint64_t* from, uint32_t count, uint32_t most, uint32_t age, Take take) {
#pragma unroll 1
    for (uint32_t turn = 0; turn < most; turn += kAtOnce, from += kAtOnce * kStep) {
        TwoWords some[kAtOnce];
        bool lacks[kAtOnce];
#pragma unroll
        for (int i = 0; i < kAtOnce; ++i) lacks[i] = turn + i < count;
        bool waits;
#pragma unroll 1
        do {
            waits = false;
#pragma unroll
            for (int i = 0; i < kAtOnce; ++i) {
                if (lacks[i]) some[i].look(from + i * kStep);
            }
#pragma unroll
            for (int i = 0; i < kAtOnce; ++i) {
                lacks[i] = lacks[i] && !some[i].are_of(age);
                waits = waits || lacks[i];
            }
        } while (any_looks(waits));
#pragma unroll
        for (int i = 0; i < kAtOnce; ++i) {
            if (turn + i < count) take(turn + i, some[i].data());
        }
    }
}

// What the link under way reads and writes. The first link of a chain has no mail, and the last one sends none.
struct ChainMail {
    const uint64_t* from_results;
    const uint64_t* from_squares;
    uint64_t* to_results;
    uint64_t* to_squares;
    uint32_t from_age;
    uint32_t to_age;

    __device__ ChainMail(const ChainParams& p, uint32_t link, uint32_t age) {
        // Three in turn, not two: blocks that attend hear from few others, and one that is late may still read the link before.
        const uint32_t from = (link + 2) % 3 * kMostRows, to = link % 3 * kMostRows;
        const bool has_some = link > 0, sends = link + 1 < p.count;
        from_results = has_some ? p.results + from * kResultWords : nullptr;
        from_squares = has_some ? p.squares + from * kSquareWords : nullptr;
        to_results = sends ? p.results + to * kResultWords : nullptr;
        to_squares = sends ? p.squares + to * kSquareWords : nullptr;
        from_age = age + link;
        to_age = age + link + 1;
    }

    // Results `at`, which is even, and its neighbour.
    __device__ __forceinline__ void send_results(uint32_t row, uint32_t at, uint32_t pair) const {
        send(to_results + row * kResultWords + at / 2, pair, to_age);
    }
};
