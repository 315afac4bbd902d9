// TMA: tiles of a tensor of 16-bit elements with rows of 128 bytes and the 128-byte swizzle, or of 8-byte words without swizzle.
// They land as late as possible, in any order, and until then their destination is poisoned.
#pragma once
#include <initializer_list>
#include <vector>

#include "barrier.cuh"

struct alignas(128) TensorMap {
    const uint8_t* address;
    uint64_t strides[4];
    uint32_t sizes[5];
    uint32_t shape[5];
    uint32_t rank;
    // Bytes.
    uint32_t element;
};
static_assert(sizeof(TensorMap) == 128, "as on the GPU");

namespace emulator {

constexpr uint32_t kTurnedRow = 128, kTurnedElement = 2, kWord = 8;

// As tensor_map.rs asks the driver for one: sizes and the tile's shape in elements, strides of all but the first in bytes.
inline TensorMap make_map(const void* address, std::initializer_list<uint64_t> sizes, std::initializer_list<uint64_t> strides,
                          std::initializer_list<uint32_t> shape, uint32_t element = kTurnedElement) {
    TensorMap map{};
    map.element = element;
    map.address = static_cast<const uint8_t*>(address);
    map.rank = sizes.size();
    std::copy(sizes.begin(), sizes.end(), map.sizes);
    std::copy(strides.begin(), strides.end(), map.strides);
    std::copy(shape.begin(), shape.end(), map.shape);
    return map;
}

inline uint32_t swizzled(uint32_t address) { return address ^ (address >> 7 & 7) << 4; }

struct TileCopy {
    TensorMap map;
    Barrier* done;
    uint32_t to;
    int at[5];

    uint32_t rows() const {
        uint32_t rows = 1;
        for (uint32_t i = 1; i < map.rank; ++i) rows *= map.shape[i];
        return rows;
    }

    bool is_turned() const { return map.element == kTurnedElement; }
    uint32_t row_bytes() const { return map.shape[0] * map.element; }

    void land() const {
        for (uint32_t row = 0; row < rows(); ++row) {
            const uint8_t* from = find(row);
            for (uint32_t i = 0; i < map.shape[0]; ++i) {
                const uint32_t straight = to + row * row_bytes() + i * map.element;
                uint8_t* place = at_shared(is_turned() ? swizzled(straight) : straight, map.element, map.element);
                const bool there = from && at[0] >= 0 && at[0] + i < map.sizes[0];
                Copy{place, there ? from + (at[0] + i) * map.element : nullptr, map.element}.land();
            }
        }
        done->complete(rows() * row_bytes());
    }

private:
    // Where a row of the tile begins; null outside of the tensor.
    const uint8_t* find(uint32_t row) const {
        const uint8_t* from = map.address;
        for (uint32_t i = 1; i < map.rank; ++i) {
            const int64_t place = at[i] + static_cast<int64_t>(row % map.shape[i]);
            if (place < 0 || place >= map.sizes[i]) return nullptr;
            from += place * static_cast<int64_t>(map.strides[i - 1]);
            row /= map.shape[i];
        }
        return from;
    }
};

inline void issue(void* to, const TensorMap* map, Barrier* done, std::initializer_list<int> at) {
    TileCopy copy{*map, done, shared_offset(to), {}};
    if (at.size() != map->rank) refuse("copies a tile at %zu coordinates of %u", at.size(), map->rank);
    if (copy.is_turned() && copy.row_bytes() != kTurnedRow) refuse("copies rows that are not %u bytes long", kTurnedRow);
    if (copy.row_bytes() % 16 != 0) refuse("copies rows of %u bytes", copy.row_bytes());
    for (uint32_t i = 0; i + 1 < map->rank; ++i) {
        if (map->strides[i] % 16 != 0) refuse("copies rows that are %lu bytes apart", static_cast<unsigned long>(map->strides[i]));
    }
    std::copy(at.begin(), at.end(), copy.at);
    const uint32_t bytes = copy.rows() * copy.row_bytes();
    memset(at_shared(copy.to, bytes, copy.is_turned() ? 8 * kTurnedRow : 128), kPoison, bytes);
    block().later([copy] { copy.land(); });
}

}  // namespace emulator

inline void prefetch_tensormap(const TensorMap*) {}

template <class... At>
inline void tma_load(void* to, const TensorMap* map, Barrier* done, At... at) {
    emulator::issue(to, map, done, {static_cast<int>(at)...});
}

struct EvictFirst {
    EvictFirst() {}

    // Contiguous bytes.
    void bulk_load(void* to, const void* from, uint32_t bytes, Barrier* done) const {
        if (bytes % 16 != 0 || reinterpret_cast<uintptr_t>(from) % 16 != 0) emulator::refuse("copies %u bytes from %p", bytes, from);
        uint8_t* place = emulator::at_shared(shared_address(to), bytes, 16);
        memset(place, emulator::kPoison, bytes);
        emulator::block().later([=] {
            memcpy(place, from, bytes);
            done->complete(bytes);
        });
    }

    template <class... At>
    void tma_load(void* to, const TensorMap* map, Barrier* done, At... at) const {
        ::tma_load(to, map, done, at...);
    }
};
