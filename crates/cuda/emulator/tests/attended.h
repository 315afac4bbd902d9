// What attention must give, by loops in double precision.
#pragma once
#include "attention_batch.h"

// What a batch must give, from its memory before the kernel ran.
struct Expected {
    const AttentionBatch& batch;
    const BatchShape& shape = batch.shape;

    // A head of a new token, normalised and rotated.
    std::vector<double> turned(int token, int first, const std::vector<float>& norm, double eps) const {
        const int dim = shape.dim, half = dim / 2;
        std::vector<double> head, result(dim);
        double squares = 0;
        for (int i = 0; i < dim; ++i) {
            head.push_back(batch.given.at(token, first + i));
            squares += head[i] * head[i];
        }
        const double factor = 1 / std::sqrt(squares / dim + eps);
        for (int i = 0; shape.norms != Norms::kNone && i < dim; ++i) head[i] *= factor * norm[i];
        const float* angle = &batch.angles[batch.positions[token] * dim];
        for (int i = 0; i < half; ++i) {
            result[i] = head[i] * angle[i] - head[i + half] * angle[i + half];
            result[i + half] = head[i + half] * angle[i] + head[i] * angle[i + half];
        }
        return result;
    }

    std::vector<double> query(int token, int head) const {
        const int first = head * shape.dim;
        std::vector<double> query;
        if (shape.rotates()) query = turned(token, first, batch.query_norm, AttentionBatch::kQueryEps);
        for (int i = 0; !shape.rotates() && i < shape.dim; ++i) query.push_back(batch.given.at(token, first + i));
        return query;
    }

    std::vector<double> key(int token, int head) const {
        return turned(token, shape.query_width() + head * shape.dim, batch.key_norm, AttentionBatch::kKeyEps);
    }

    std::vector<double> value(int token, int head) const {
        const int first = shape.query_width() + shape.kv_width() + head * shape.dim;
        std::vector<double> value;
        for (int i = 0; i < shape.dim; ++i) value.push_back(batch.given.at(token, first + i));
        return value;
    }

    // The result of a query head of a sequence's new token of this number, from the cache as it is.
    std::vector<double> attended(int row, int number, int head) const {
        const std::vector<double> asked = query(batch.starts[row] + number, head);
        const int column = head / shape.group * shape.dim, own = shape.lengths[row] - shape.fresh(row) + number;
        const int first = uint32_t(own) + 1 > shape.window ? own + 1 - shape.window : 0;
        double total = shape.sinks ? std::exp(batch.sinks[head]) : 0;
        std::vector<double> sum(shape.dim);
        for (int position = first; position <= own; ++position) {
            const int slot = batch.slot(row, position);
            double score = 0;
            for (int i = 0; i < shape.dim; ++i) score += rounded(asked[i]) * batch.keys.at(slot, column + i);
            score /= std::sqrt(double(shape.dim));
            if (shape.soft_cap > 0) score = shape.soft_cap * std::tanh(score / shape.soft_cap);
            const double weight = std::exp(score);
            total += weight;
            for (int i = 0; i < shape.dim; ++i) sum[i] += weight * batch.values.at(slot, column + i);
        }
        for (double& element : sum) element /= total;
        return sum;
    }
};

// Elements of a row as numbers.
template <class Rows>
std::vector<float> elements(const Rows& rows, int row, int first, int count) {
    std::vector<float> all;
    for (int i = 0; i < count; ++i) all.push_back(rows.at(row, first + i));
    return all;
}

// Results of every head of every token that the kernel takes; other rows are unchanged.
inline double check_results(const AttentionBatch& after) {
    const BatchShape& shape = after.shape;
    double worst = 0;
    for (int row = 0; row < shape.rows(); ++row) {
        for (int i = 0; i < shape.fresh(row); ++i) {
            for (int head = 0; head < shape.heads(); ++head) {
                const int token = after.starts[row] + i;
                const std::vector<float> found = elements(after.out, token, head * shape.dim, shape.dim);
                const auto is_number = [](float x) { return x == x; };
                if (shape.is_taken(row)) {
                    worst = std::max(worst, distance(found, Expected{after}.attended(row, i, head)));
                } else if (std::any_of(found.begin(), found.end(), is_number)) {
                    report(shape.name(), false, words("writes row %d, which is not its own", row));
                }
            }
        }
    }
    return worst;
}
