// How sequences are cut for attention: parts of them, one key head each.
#pragma once
#include "ring.cuh"

constexpr int kHeadDim = 128;
// Positions of a stage; parts have some stages, so few that most blocks have a part and none lacks room for weights.
constexpr int kTile = 32;

struct ChainPart {
    uint32_t head;
    uint32_t row;
    // Among all parts, those of the same sequence and head, and where they begin.
    uint32_t number;
    uint32_t parts;
    uint32_t first_number;
    uint32_t token;
    // Where the new token stands, and where its key and value go.
    uint32_t position;
    uint32_t slot;
    uint32_t length;
    // Positions.
    uint32_t begin;
    uint32_t end;
    const uint32_t* pages;

    __device__ __forceinline__ bool has_newest() const { return end == length; }
    __device__ __forceinline__ uint32_t stages() const { return (end - begin + kTile - 1) / kTile; }
};

// Finds part `number`, and how many there are. Sequences are cut by their own length and by how many there are, so that
// no block has two parts where another has none.
__device__ inline ChainPart find_part(const ChainAttend& a, uint32_t number, uint32_t& count) {
    ChainPart part{};
    part.number = number;
    uint32_t before = 0;
#pragma unroll 1
    for (uint32_t row = 0; row < a.rows; ++row) {
        // Every row has results, or those who wait for them would wait for ever.
        const uint32_t length = max(1u, a.lengths[row]);
        const uint32_t most = kTile * a.most_parts, each = max(1u, (length + most - 1) / most) * kTile;
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
