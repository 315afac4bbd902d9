// What a chain is made of: one link an op, field by field as chain/link.rs lays it out.
#pragma once
#include "../attend/params.cuh"
#include "../common/float8.cuh"
#include "../linear/params.cuh"

enum class LinkKind : uint32_t { kResults, kGated, kOnward, kAttend };

// One new token a sequence: rotated, stored, attended.
struct ChainAttend {
    FreshParams fresh;
    const bf16* query;
    // Of bf16, or of eight-bit floats.
    void* keys;
    void* values;
    const uint32_t* starts;
    const uint32_t* lengths;
    const uint32_t* table_rows;
    const uint32_t* page_table;
    bf16* out;
    // Where parts of a sequence tell each other what they have found, and the maxima and totals of that.
    uint64_t* part_sums;
    uint64_t* part_scales;
    uint32_t query_stride;
    uint32_t out_stride;
    uint32_t table_stride;
    uint32_t rows;
    uint32_t page_size;
    uint32_t kv_heads;
    uint32_t group;
    // Of a sequence, for one key head.
    uint32_t most_parts;
    // The power of two of positions that one copy brings.
    uint32_t run_shift;
    // Bytes of an element of keys and values.
    uint32_t element;
    float scale;
};

struct ChainLinear : LinearSurroundings {
    // Of weights of eight-bit floats; others have none.
    Scales scales;
    // Of folded weights; others have none.
    const uint2* strays;
};

struct alignas(128) ChainLink {
    // Of a product, the weight, and of folded ones their heads; of attention, keys and values.
    TensorMap maps[2];
    LinkKind kind;
    // Sixteen outputs each, or key heads; and stages of inputs.
    uint32_t groups;
    uint32_t stages;
    uint32_t inputs;
    const bf16* x;
    uint32_t x_stride;
    union {
        ChainLinear linear;
        ChainAttend attend;
    };
};

static_assert(sizeof(ChainLinear) == 128 && sizeof(ChainAttend) == 208 && sizeof(ChainLink) == 512, "as chain/link.rs has them");

// The age of the newest mail of all chains before, and how many blocks have finished this one.
struct ChainProgress {
    uint32_t age;
    uint32_t done;
};

struct ChainParams {
    // In device memory; absent where the chain has one link, which is given here.
    const ChainLink* links;
    ChainProgress* progress;
    // Mail of three links in turn: results, and sums of squares.
    uint64_t* results;
    uint64_t* squares;
    uint32_t count;
    uint32_t ring;
    uint32_t x_room;
    ChainLink only;
};
