// KV splits: how sequences are cut for decode attention, per KV head.
#pragma once
#include "ring.cuh"

constexpr int kHeadDim = 128;
// Positions of a tile. A split has few tiles, so that most blocks have a split and none lacks ring space for weights.
constexpr int kTilePositions = 32;

struct KvSplit {
    uint32_t head;
    uint32_t row;
    // Number among all splits, splits of the same sequence and head, and the first of those.
    uint32_t number;
    uint32_t parts;
    uint32_t first_number;
    uint32_t token;
    // Position of the new token, and the slot of its key and value.
    uint32_t position;
    uint32_t slot;
    uint32_t length;
    // Range of positions.
    uint32_t begin;
    uint32_t end;
    const uint32_t* pages;

    __device__ __forceinline__ bool has_newest() const { return end == length; }
    __device__ __forceinline__ uint32_t tiles() const { return (end - begin + kTilePositions - 1) / kTilePositions; }
};

// Finds split `number` and the count of all splits. Split lengths depend on a sequence's length and on the number of
// sequences, so that no block has two splits where another has none.
__device__ inline KvSplit find_split(const AttendStage& a, uint32_t number, uint32_t& count) {
    KvSplit part{};
    part.number = number;
    uint32_t before = 0;
#pragma unroll 1
    for (uint32_t row = 0; row < a.rows; ++row) {
        // Every row must have results: other blocks poll for them.
        const uint32_t length = max(1u, a.lengths[row]);
        const uint32_t most = kTilePositions * a.most_parts, each = max(1u, (length + most - 1) / most) * kTilePositions;
        const uint32_t parts = (length + each - 1) / each;
        const uint32_t first = before;
        before += parts * a.kv_heads;
        if (number < first || number >= before) continue;
        part.row = row;
        part.parts = parts;
        part.head = (number - first) / parts;
        part.first_number = first + part.head * parts;
        part.token = a.starts[row];
        part.position = a.fresh.positions[part.token];
        part.slot = a.fresh.slots[part.token];
        part.length = length;
        part.begin = (number - part.first_number) * each;
        part.end = min(part.begin + each, length);
        part.pages = a.page_table + static_cast<size_t>(a.table_rows[row]) * a.table_stride;
    }
    count = before;
    return part;
}
