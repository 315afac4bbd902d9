// Attention of new tokens over pages: the stage, its memory, and the expected results.
#pragma once
#include <numeric>

#include "cache.h"
#include "megakernel_stages.h"

struct AttentionShape {
    // One sequence each, the new token included.
    std::vector<int> lengths;
    int kv_heads;
    int group;
    int page;
    uint32_t most_parts;
    bool norms;
    // The cache is of eight-bit floats.
    bool narrow = false;

    int rows() const { return lengths.size(); }
    int query_width() const { return kv_heads * group * kHeadDim; }
    int kv_width() const { return kv_heads * kHeadDim; }
    int all_width() const { return query_width() + 2 * kv_width(); }

    std::string name() const {
        const std::string other = rows() > 1 ? words(" and %d", lengths[1]) : "";
        return words("lengths %d%s, %d x %d heads, pages of %d, up to %u parts%s%s", lengths[0], other.c_str(), kv_heads, group,
                     page, most_parts, norms ? ", norms" : "", narrow ? ", codes" : "");
    }
};

struct Attention {
    static constexpr float kEps = 1e-6f;

    const AttentionShape shape;
    // Queries, keys and values of new tokens, as the QKV GEMM leaves them.
    Matrix fresh;
    Cache keys;
    Cache values;
    Matrix out;
    std::vector<uint32_t> pages, starts, lengths, table_rows, positions, slots;
    uint32_t table_stride;
    std::vector<float> angles, query_norm, key_norm;
    std::vector<uint64_t> part_sums, part_scales;

    explicit Attention(const AttentionShape& of)
        : shape(of),
          fresh(Matrix::random(of.rows(), of.all_width(), 8)),
          keys(page_count(of) * of.page, of.kv_width(), of.narrow),
          values(keys),
          out(of.rows(), of.query_width(), 8),
          table_stride(page_count(of)) {
        lay_out_pages();
        for (int row = 0; row < shape.rows(); ++row) remember(row);
        const int longest = *std::max_element(of.lengths.begin(), of.lengths.end());
        for (int position = 0; position < longest; ++position) add_angles(position);
        for (int i = 0; i < kHeadDim; ++i) {
            query_norm.push_back(1.0f + 0.2f * random_numbers().number());
            key_norm.push_back(1.0f + 0.2f * random_numbers().number());
        }
        const size_t parts = size_t(of.rows()) * of.kv_heads * of.most_parts * kMostHeads;
        part_sums.resize(parts * kHeadDim);
        part_scales.resize(parts * 2);
    }

    Stage stage() {
        Stage stage{};
        stage.kind = StageKind::kAttend;
        stage.groups = shape.kv_heads;
        const uint64_t head = keys.element * kHeadDim, heads = shape.kv_heads;
        const uint32_t run = std::min(kTilePositions, shape.page & -shape.page);
        const Cache* caches[] = {&keys, &values};
        const uint64_t slices = head / 128;
        for (int i = 0; i < 2; ++i) {
            stage.maps[i] = emulator::make_map(caches[i]->bytes.data(), {64, heads, uint64_t(keys.rows), slices},
                                              {head, heads * head, 128}, {64, 1, run, uint32_t(slices)});
        }
        stage.attend = {};
        fill_new_tokens(stage.attend.fresh);
        AttendStage& a = stage.attend;
        a.query = fresh.elements.data();
        a.keys = keys.bytes.data();
        a.values = values.bytes.data();
        a.element = keys.element;
        a.starts = starts.data();
        a.lengths = lengths.data();
        a.table_rows = table_rows.data();
        a.page_table = pages.data();
        a.out = out.elements.data();
        a.part_sums = part_sums.data();
        a.part_scales = part_scales.data();
        a.query_stride = fresh.stride;
        a.out_stride = out.stride;
        a.table_stride = table_stride;
        a.rows = shape.rows();
        a.page_size = shape.page;
        a.kv_heads = shape.kv_heads;
        a.group = shape.group;
        a.most_parts = shape.most_parts;
        a.run_shift = __builtin_ctz(run);
        a.scale = 1.0f / std::sqrt(float(kHeadDim));
        return stage;
    }

    int slot(int row, int position) const {
        return pages[table_rows[row] * table_stride + position / shape.page] * shape.page + position % shape.page;
    }

    // A head of a new token, normalised and rotated, in double precision.
    std::vector<double> turned(int row, int first, const std::vector<float>& norm) const {
        std::vector<double> head, result(kHeadDim);
        double squares = 0;
        for (int i = 0; i < kHeadDim; ++i) {
            head.push_back(fresh.at(row, first + i));
            squares += head[i] * head[i];
        }
        const double factor = 1 / std::sqrt(squares / kHeadDim + kEps);
        for (int i = 0; shape.norms && i < kHeadDim; ++i) head[i] *= factor * norm[i];
        const float* angle = &angles[positions[row] * kHeadDim];
        constexpr int kHalf = kHeadDim / 2;
        for (int i = 0; i < kHalf; ++i) {
            result[i] = head[i] * angle[i] - head[i + kHalf] * angle[i + kHalf];
            result[i + kHalf] = head[i + kHalf] * angle[i] + head[i] * angle[i + kHalf];
        }
        return result;
    }

    // The result of one query head, from the cache as it is after the kernel.
    std::vector<double> attended(int row, int head) const {
        const std::vector<double> query = turned(row, head * kHeadDim, query_norm);
        const int column = head / shape.group * kHeadDim;
        std::vector<double> weights, sum(kHeadDim);
        for (int position = 0; position < shape.lengths[row]; ++position) {
            double score = 0;
            for (int i = 0; i < kHeadDim; ++i) score += rounded(query[i]) * keys.at(slot(row, position), column + i);
            weights.push_back(std::exp(score / std::sqrt(double(kHeadDim))));
        }
        const double total = std::accumulate(weights.begin(), weights.end(), 0.0);
        for (int position = 0; position < shape.lengths[row]; ++position) {
            const double weight = weights[position] / total;
            for (int i = 0; i < kHeadDim; ++i) sum[i] += weight * values.at(slot(row, position), column + i);
        }
        return sum;
    }

private:
    static int page_count(const AttentionShape& of) {
        int count = 1;
        for (int length : of.lengths) count += (length + of.page - 1) / of.page;
        return count;
    }

    // Pages of a sequence lie anywhere, and its row of the table is not its own number.
    void lay_out_pages() {
        std::vector<uint32_t> order(table_stride);
        std::iota(order.begin(), order.end(), 0);
        std::shuffle(order.begin(), order.end(), random_numbers().words);
        pages.assign(shape.rows() * table_stride, 0);
        auto next = order.begin();
        for (int row = 0; row < shape.rows(); ++row) {
            const uint32_t place = shape.rows() - 1 - row;
            starts.push_back(row);
            table_rows.push_back(place);
            lengths.push_back(shape.lengths[row]);
            positions.push_back(shape.lengths[row] - 1);
            for (int i = 0; i * shape.page < shape.lengths[row]; ++i) pages[place * table_stride + i] = *next++;
            slots.push_back(slot(row, shape.lengths[row] - 1));
        }
        starts.push_back(shape.rows());
    }

    // Everything before the new token is cached.
    void remember(int row) {
        for (int position = 0; position + 1 < shape.lengths[row]; ++position) {
            for (int i = 0; i < shape.kv_width(); ++i) {
                keys.set(slot(row, position), i, random_numbers().number());
                values.set(slot(row, position), i, random_numbers().number());
            }
        }
    }

    void add_angles(int position) {
        for (int part = 0; part < 2; ++part) {
            for (int i = 0; i < kHeadDim / 2; ++i) {
                const double angle = position * std::pow(10000.0, -2.0 * i / kHeadDim);
                angles.push_back(part == 0 ? std::cos(angle) : std::sin(angle));
            }
        }
    }

    void fill_new_tokens(FreshParams& params) const {
        params.key = fresh.elements.data() + shape.query_width();
        params.value = params.key + shape.kv_width();
        params.query_norm = shape.norms ? query_norm.data() : nullptr;
        params.key_norm = shape.norms ? key_norm.data() : nullptr;
        params.positions = positions.data();
        params.table = angles.data();
        params.slots = slots.data();
        params.query_eps = params.key_eps = kEps;
        params.key_stride = params.value_stride = fresh.stride;
        params.wide_norms = 1;
    }
};
