// A batch of attention, with its memory as launch/attend.rs describes it to kernels.
#pragma once
#include <algorithm>
#include <functional>
#include <memory>
#include <numeric>

#include "cache.h"

#include "attend/chunks.cuh"

enum class Norms { kNone, kBf16, kFloat };

struct BatchShape {
    // Of each sequence, new tokens included.
    std::vector<int> lengths;
    int kv_heads = 1;
    int group = 1;
    int page = 16;
    uint32_t workers = 1;
    emulator::Order order = emulator::Order::kForward;
    int dim = 128;
    // The cache is of eight-bit floats.
    bool narrow = false;
    Norms norms = Norms::kFloat;
    // New tokens of each sequence where they are rotated and stored; else each has one, as it left the projection.
    std::vector<int> stored = {};
    uint32_t window = UINT32_MAX;
    bool sinks = false;
    float soft_cap = 0.0f;
    // Sequences with more new tokens are not for this kernel, nor is the one that lives elsewhere.
    uint32_t few = UINT32_MAX;
    int elsewhere = -1;

    bool rotates() const { return stored.empty(); }
    int rows() const { return lengths.size(); }
    int fresh(int row) const { return rotates() ? 1 : stored[row]; }
    int heads() const { return kv_heads * group; }
    int query_width() const { return heads() * dim; }
    int kv_width() const { return kv_heads * dim; }
    bool is_taken(int row) const { return uint32_t(fresh(row)) <= few && row != elsewhere; }
    // The kernel's heads and columns. Small heads of bytes take the room of larger ones.
    int kernel_dim() const { return dim <= 64 && !narrow ? 64 : dim <= 128 ? 128 : 256; }
    int columns() const { return group > 8 ? 16 : 8; }
    bool has_kernel_alone() const { return kernel_dim() == 128 && !narrow; }
    int longest() const { return *std::max_element(lengths.begin(), lengths.end()); }

    std::string name() const {
        std::string all;
        for (int row = 0; row < rows() && row < 4; ++row) all += words(row == 0 ? "%d" : ", %d", lengths[row]);
        if (rows() > 4) all += words(" and %d more", rows() - 4);
        return words("%s of %d: lengths %s, %d x %d heads, pages of %d, %u workers, order %d%s%s%s%s", narrow ? "bytes" : "bf16",
                     dim, all.c_str(), kv_heads, group, page, workers, int(order), rotates() ? "" : ", stored",
                     window == UINT32_MAX ? "" : ", window", sinks ? ", sinks" : "", soft_cap > 0 ? ", cap" : "");
    }
};

inline int page_count(const BatchShape& of) {
    int count = 1;
    for (int length : of.lengths) count += (length + of.page - 1) / of.page;
    return count;
}

inline int token_count(const BatchShape& of) {
    int count = 0;
    for (int row = 0; row < of.rows(); ++row) count += of.fresh(row);
    return count;
}

struct AttentionBatch {
    static constexpr float kQueryEps = 1e-6f, kKeyEps = 1e-2f;
    // Positions that heads are rotated by, different from the tokens' positions so that mixing them up shows.
    static constexpr int kAngles = 40;

    const BatchShape shape;
    // Queries of new tokens and, where they are not stored yet, keys and values.
    Matrix given;
    Cache keys, values;
    Matrix out;
    std::vector<uint32_t> pages, starts, lengths, table_rows, homes, positions, slots;
    uint32_t table_stride;
    // Weights of norms are numbers that bf16 has.
    std::vector<float> angles, query_norm, key_norm, sinks;
    std::vector<__nv_bfloat16> short_query_norm, short_key_norm;
    std::vector<float> partial_sums, partial_scales;
    std::vector<uint32_t> arrivals;

    explicit AttentionBatch(const BatchShape& of)
        : shape(of),
          given(Matrix::random(token_count(of), of.query_width() + (of.rotates() ? 2 * of.kv_width() : 0), 8)),
          keys(page_count(of) * of.page, of.kv_width(), of.narrow),
          values(keys),
          out(token_count(of), of.query_width(), 8),
          table_stride(page_count(of)) {
        lay_out_pages();
        for (int row = 0; row < shape.rows(); ++row) remember(row);
        for (int position = 0; position < kAngles; ++position) add_angles(position);
        for (int i = 0; i < shape.dim; ++i) {
            add_weight(query_norm, short_query_norm);
            add_weight(key_norm, short_key_norm);
        }
        for (int head = 0; head < shape.heads(); ++head) sinks.push_back(random_numbers().number());
    }

    // All but the workers and what they share.
    AttendParams attend_params() {
        AttendParams a{};
        a.query = given.elements.data();
        a.keys = keys.bytes.data();
        a.values = values.bytes.data();
        a.starts = starts.data();
        a.lengths = lengths.data();
        a.table_rows = table_rows.data();
        a.page_table = pages.data();
        a.sinks = shape.sinks ? sinks.data() : nullptr;
        a.out = out.elements.data();
        a.homes = shape.elsewhere >= 0 ? homes.data() : nullptr;
        a.query_stride = given.stride;
        a.out_stride = out.stride;
        a.table_stride = table_stride;
        a.rows = shape.rows();
        a.page_size = shape.page;
        a.query_heads = shape.heads();
        a.kv_heads = shape.kv_heads;
        a.group = shape.group;
        a.head_dim = shape.dim;
        a.window = shape.window;
        a.few = shape.few;
        a.most_chunks = chunk_of_unit((table_stride * shape.page + kUnit - 1) / kUnit - 1) + 1;
        a.scale = 1.0f / std::sqrt(float(shape.dim));
        a.soft_cap = shape.soft_cap;
        return a;
    }

    // Lets `workers` workers share the rows; sizes the memory for partial results.
    void share(AttendParams& a, uint32_t workers) {
        a.workers = workers;
        const size_t shares = size_t(workers) * shape.kv_heads, columns = shares * a.most_chunks * shape.columns();
        partial_sums.assign(columns * shape.kernel_dim(), NAN);
        partial_scales.assign(columns * 2, NAN);
        arrivals.assign(shares, 0);
        a.partial_sums = partial_sums.data();
        a.partial_scales = partial_scales.data();
        a.arrivals = arrivals.data();
    }

    // Hides what the previous kernel makes (new tokens, or what is stored of them); the returned function restores it.
    std::function<void()> take_back() {
        const auto complete = std::make_shared<AttentionBatch>(*this);
        std::fill(given.elements.begin(), given.elements.end(), __float2bfloat16(NAN));
        for (int row = 0; row < shape.rows(); ++row) {
            for (int position = shape.lengths[row] - shape.fresh(row); position < shape.lengths[row]; ++position) {
                for (int i = 0; i < shape.kv_width(); ++i) {
                    keys.set(slot(row, position), i, NAN);
                    values.set(slot(row, position), i, NAN);
                }
            }
        }
        return [this, complete] {
            std::copy(complete->given.elements.begin(), complete->given.elements.end(), given.elements.begin());
            std::copy(complete->keys.bytes.begin(), complete->keys.bytes.end(), keys.bytes.begin());
            std::copy(complete->values.bytes.begin(), complete->values.bytes.end(), values.bytes.begin());
            std::copy(complete->out.elements.begin(), complete->out.elements.end(), out.elements.begin());
        };
    }

    int slot(int row, int position) const {
        return pages[table_rows[row] * table_stride + position / shape.page] * shape.page + position % shape.page;
    }

private:
    // Pages of a sequence lie anywhere, and its row of the table is not its own number.
    void lay_out_pages() {
        std::vector<uint32_t> order(table_stride);
        std::iota(order.begin(), order.end(), 0);
        std::shuffle(order.begin(), order.end(), random_numbers().words);
        pages.assign(shape.rows() * table_stride, UINT32_MAX);
        auto next = order.begin();
        starts.push_back(0);
        for (int row = 0; row < shape.rows(); ++row) {
            const uint32_t place = shape.rows() - 1 - row;
            starts.push_back(starts.back() + shape.fresh(row));
            table_rows.push_back(place);
            lengths.push_back(shape.lengths[row]);
            homes.push_back(row == shape.elsewhere ? 7 : kNowhere);
            for (int i = 0; i * shape.page < shape.lengths[row]; ++i) pages[place * table_stride + i] = *next++;
            positions.push_back(random_numbers().words() % kAngles);
            slots.push_back(slot(row, shape.lengths[row] - 1));
        }
    }

    // What is cached: everything that a token sees but for new ones that are not stored.
    void remember(int row) {
        const int old = shape.lengths[row] - shape.fresh(row), end = shape.rotates() ? old : shape.lengths[row];
        const int first = uint32_t(old) + 1 > shape.window ? old + 1 - shape.window : 0;
        for (int position = first; position < end; ++position) {
            for (int i = 0; i < shape.kv_width(); ++i) {
                keys.set(slot(row, position), i, random_numbers().number());
                values.set(slot(row, position), i, random_numbers().number());
            }
        }
    }

    void add_angles(int position) {
        for (int part = 0; part < 2; ++part) {
            for (int i = 0; i < shape.dim / 2; ++i) {
                const double angle = position * std::pow(100.0, -2.0 * i / shape.dim);
                angles.push_back(part == 0 ? std::cos(angle) : std::sin(angle));
            }
        }
    }

    static void add_weight(std::vector<float>& norm, std::vector<__nv_bfloat16>& short_norm) {
        short_norm.push_back(__float2bfloat16(1.0f + 0.2f * random_numbers().number()));
        norm.push_back(__bfloat162float(short_norm.back()));
    }
};
