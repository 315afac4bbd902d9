// A stage of the megakernel: one op, field by field as megakernel/stage.rs lays it out.
#pragma once
#include "../attend/params.cuh"
#include "../common/float8.cuh"
#include "../linear/params.cuh"

enum class StageKind : uint32_t { kStore, kGated, kAddNorm, kAttend };

// Decode attention: RoPE, KV store, attention of one new token per sequence.
struct AttendStage {
    FreshParams fresh;
    const bf16* query;
    // bf16 or e4m3.
    void* keys;
    void* values;
    const uint32_t* starts;
    const uint32_t* lengths;
    const uint32_t* table_rows;
    const uint32_t* page_table;
    bf16* out;
    // Where KV splits exchange partial sums, and their maxima and totals.
    uint64_t* part_sums;
    uint64_t* part_scales;
    uint32_t query_stride;
    uint32_t out_stride;
    uint32_t table_stride;
    uint32_t rows;
    uint32_t page_size;
    uint32_t kv_heads;
    uint32_t group;
    // KV splits of a sequence, for one KV head.
    uint32_t most_parts;
    // Base-2 logarithm of the positions that one copy brings.
    uint32_t run_shift;
    // Bytes of a key or value element.
    uint32_t element;
    float scale;
};

struct LinearStage : EpilogueParams {
    // Of e4m3 weights.
    Scales scales;
    // Of bf12 weights.
    const uint2* outliers;
};

struct alignas(128) Stage {
    // Of a GEMM: the weight, and the headers of bf12. Of attention: keys and values.
    TensorMap maps[2];
    StageKind kind;
    // Groups of sixteen outputs, or KV heads; then k-tiles.
    uint32_t groups;
    uint32_t tiles;
    uint32_t inputs;
    const bf16* x;
    uint32_t x_stride;
    union {
        LinearStage linear;
        AttendStage attend;
    };
};

static_assert(sizeof(LinearStage) == 128 && sizeof(AttendStage) == 208 && sizeof(Stage) == 512, "as megakernel/stage.rs has them");

// The last epoch of all previous launches, and how many blocks of this one have finished.
struct MegakernelProgress {
    uint32_t epoch;
    uint32_t done;
};

struct MegakernelParams {
    // In device memory; null where there is a single stage, which is `only`.
    const Stage* stages;
    MegakernelProgress* progress;
    // Triple-buffered messages: results, and sums of squares.
    uint64_t* results;
    uint64_t* squares;
    uint32_t count;
    uint32_t ring;
    uint32_t x_room;
    Stage only;
};
