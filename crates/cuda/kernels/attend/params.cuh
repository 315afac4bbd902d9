// What every attention kernel is given, field by field as launch/attend.rs lays it out.
#pragma once
#include "../common/bf16.cuh"
#include "../common/fresh.cuh"

struct AttendParams {
    const bf16* query;
    const void* keys;
    const void* values;
    const uint32_t* starts;
    const uint32_t* lengths;
    const uint32_t* table_rows;
    const uint32_t* page_table;
    const float* sinks;
    bf16* out;
    // Partial results of chunks shared between blocks, their maxima and totals, and arrival counters.
    float* partial_sums;
    float* partial_scales;
    uint32_t* arrivals;
    // Page offsets of widened rows; rows that have one are skipped. Null where no row is widened.
    const uint32_t* homes;
    uint32_t query_stride;
    uint32_t out_stride;
    uint32_t table_stride;
    uint32_t rows;
    uint32_t page_size;
    // log2 of the page size, where tiles of sixteen do not cross pages and heads are 16-byte aligned; else zero.
    uint32_t page_shift;
    uint32_t query_heads;
    uint32_t kv_heads;
    uint32_t group;
    uint32_t head_dim;
    uint32_t window;
    // Rows with more new tokens than this belong to `attend_tiles`, the others to `attend_split`.
    uint32_t few;
    // Blocks per KV head, and chunks of the longest sequence.
    uint32_t workers;
    uint32_t most_chunks;
    float scale;
    float soft_cap;
};

constexpr float kLog2E = 1.4426950408889634f;
// Stands for minus infinity: the difference of two of them must not be a NaN.
constexpr float kLowest = -1e30f;
// Page offset of a row that is not widened; real offsets are near zero.
constexpr uint32_t kNowhere = 0x80000000u;

// A sequence of the batch: its new tokens, their positions, and its page list.
struct Sequence {
    uint32_t first_token;
    uint32_t fresh;
    uint32_t length;
    const uint32_t* pages;

    __device__ static Sequence load(const AttendParams& p, uint32_t row) {
        Sequence sequence{0, 0, 0, p.page_table};
        if (row >= p.rows) return sequence;
        sequence.first_token = p.starts[row];
        sequence.fresh = p.starts[row + 1] - sequence.first_token;
        if (p.homes && p.homes[row] != kNowhere) sequence.fresh = 0;
        sequence.length = p.lengths[row];
        sequence.pages = p.page_table + static_cast<size_t>(p.table_rows[row]) * p.table_stride;
        return sequence;
    }

    // Position of the first new token.
    __device__ uint32_t old() const { return length - fresh; }
};
