// Warpgroup MMA: each thread computes its own sums as late as possible, when it waits for them, so operands that are
// overwritten too early give wrong sums. Done when all threads of the warpgroup have waited.
#pragma once
#include "tma.cuh"

// Where a matrix begins; rows are 128 bytes long, with the 128-byte swizzle.
inline uint64_t k_major_descriptor(uint32_t address) {
    if (address % 1024 != 0) emulator::refuse("multiplies a matrix at %u, no multiple of 1024", address);
    return address >> 4;
}

inline uint64_t advance_descriptor(uint64_t matrix, uint32_t bytes) { return matrix + (bytes >> 4); }

inline void warpgroup_arrive() {}

inline void warpgroup_commit() {
    emulator::Thread& thread = emulator::thread();
    thread.product_groups.push_back(std::move(thread.products));
    thread.products.clear();
}

template <int kPending>
inline void warpgroup_wait() {
    auto& groups = emulator::thread().product_groups;
    for (; groups.size() > kPending; groups.pop_front()) {
        for (const auto& multiply : groups.front()) multiply();
    }
    emulator::Block& block = emulator::block();
    const uint32_t group = threadIdx.x / 128;
    block.synchronise(block.warpgroups[group], 128, {"MMAs of its warpgroup", group}, [](void**) {});
}

template <int kCount>
inline void warpgroup_fence_operand(float (&)[kCount]) {}

namespace emulator {

// Sixteen columns of a row.
struct RowPart {
    float numbers[16] = {};

    RowPart() = default;

    RowPart(uint64_t matrix, uint32_t row) {
        const uint32_t from = static_cast<uint32_t>(matrix << 4) + row * kTurnedRow;
        for (uint32_t i = 0; i < 16; ++i) {
            uint16_t bits;
            memcpy(&bits, at_shared(swizzled(from + i * kTurnedElement), kTurnedElement, kTurnedElement), kTurnedElement);
            numbers[i] = __uint_as_float(static_cast<uint32_t>(bits) << 16);
        }
    }

    double times(const RowPart& other) const {
        double sum = 0;
        for (uint32_t i = 0; i < 16; ++i) sum += static_cast<double>(numbers[i]) * other.numbers[i];
        return sum;
    }
};

// A thread's two rows with its columns of every eight rows of `b`.
template <int kWidth>
void multiply_rows(float* to, const RowPart (&rows)[2], uint64_t b, bool add) {
    for (uint32_t i = 0; i < kWidth / 2; i += 4) {
        for (uint32_t column = 0; column < 2; ++column) {
            const RowPart other(b, i * 2 + lane() % 4 * 2 + column);
            for (uint32_t which = 0; which < 2; ++which) {
                float& sum = to[i + which * 2 + column];
                sum = static_cast<float>((add ? sum : 0.0) + rows[which].times(other));
            }
        }
    }
}

}  // namespace emulator

template <int kWidth>
inline void wgmma_ss(float (&sums)[kWidth / 2], uint64_t a, uint64_t b, bool accumulate) {
    const uint32_t first = threadIdx.x / 32 % 4 * 16 + emulator::lane() / 4;
    float* to = sums;
    emulator::thread().products.push_back([=] {
        const emulator::RowPart rows[2] = {{a, first}, {a, first + 8}};
        emulator::multiply_rows<kWidth>(to, rows, b, accumulate);
    });
}

// Operand A stays in registers: sixteen columns of two rows of a thread's warp.
template <int kWidth>
inline void wgmma_rs(float (&sums)[kWidth / 2], const uint32_t (&a)[4], uint64_t b, bool add) {
    float* to = sums;
    const uint32_t* held = a;
    emulator::thread().products.push_back([=] {
        // Other lanes of the row provide their elements.
        emulator::RowPart rows[2];
        for (uint32_t i = 0; i < 4; ++i) {
            for (uint32_t q = 0; q < 4; ++q) {
                const uint32_t word = __shfl_sync(~0u, held[i], emulator::lane() / 4 * 4 + q);
                float* pair = &rows[i % 2].numbers[i / 2 * 8 + q * 2];
                pair[0] = __uint_as_float(word << 16), pair[1] = __uint_as_float(word & 0xffff0000u);
            }
        }
        emulator::multiply_rows<kWidth>(to, rows, b, add);
    });
}
