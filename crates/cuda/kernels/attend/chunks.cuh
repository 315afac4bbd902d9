// Split-KV chunks: a function of the position alone, so that a row's sums are grouped alike in any batch.
//
// A unit is 128 positions. The first 16 chunks have one unit, then there are eight chunks per doubling: a sequence of 4096
// positions has 24, one of 128 Ki positions has 64. Chunks are numbered from position 0 on.
#pragma once
#include "params.cuh"

constexpr uint32_t kUnit = 128;
constexpr uint32_t kEven = 16;

__device__ __forceinline__ uint32_t chunk_of_unit(uint32_t unit) {
    if (unit < kEven) return unit;
    const uint32_t octave = 27 - __clz(unit);
    return kEven + 8 * octave + ((unit >> (octave + 1)) & 7);
}

__device__ __forceinline__ uint32_t first_unit_of(uint32_t chunk) {
    if (chunk < kEven) return chunk;
    const uint32_t octave = (chunk - kEven) / 8;
    return (8 + (chunk - kEven) % 8) << (octave + 1);
}

// The work of one sequence, in units: every block of columns visits the chunks from the first visible one on.
struct RowWork {
    uint32_t first_unit;
    uint32_t units;
    uint32_t blocks;

    __device__ static RowWork of(const AttendParams& p, const Sequence& sequence, uint32_t columns) {
        RowWork work{0, 0, 0};
        if (sequence.fresh == 0 || sequence.fresh > p.few) return work;
        const uint32_t reach = sequence.old() + 1, oldest = reach > p.window ? reach - p.window : 0;
        work.first_unit = first_unit_of(chunk_of_unit(oldest / kUnit));
        work.units = (sequence.length + kUnit - 1) / kUnit - work.first_unit;
        work.blocks = (sequence.fresh * p.group + columns - 1) / columns;
        return work;
    }

    __device__ uint32_t all() const { return units * blocks; }
    __device__ uint32_t first_chunk() const { return chunk_of_unit(first_unit); }
    __device__ uint32_t end_chunk() const { return units == 0 ? first_chunk() : chunk_of_unit(first_unit + units - 1) + 1; }
};
