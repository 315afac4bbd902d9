// Links of chains as chain/link.rs makes them, and what launches them as chain/mod.rs does.
#pragma once
#include <algorithm>

#include "chain.cu"
#include "folded.h"

constexpr uint32_t kWholeSharedRoom = 232448;

// How numbers of weights are kept: as bf16, or folded, or as eight-bit floats with a scale for all, a scale an output, or one for
// 128 outputs and 128 or 256 inputs.
enum class Coding { kBf16, kFolded, kOneScale, kScaledRows, kBlocks, kWideBlocks };

// A weight: its numbers, and as the kernel reads it.
struct ChainWeight {
    int outputs;
    int inputs;
    Coding coding;
    std::vector<double> numbers;
    std::vector<bf16> elements;
    // Ordered as common/float8.cuh says.
    std::vector<uint8_t> codes;
    std::vector<float> scales;
    Folded folded;

    // Scaled so that results are about as large as inputs.
    ChainWeight(int output_count, int input_count, Coding how = Coding::kBf16)
        : outputs(output_count), inputs(input_count), coding(how) {
        const float scale = 1.0f / std::sqrt(float(inputs));
        if (is_narrow()) {
            fill_codes(scale);
            return;
        }
        for (size_t i = 0; i < size_t(outputs) * inputs; ++i) elements.push_back(random_numbers().bf16_number(scale));
        if (is_folded()) fold(scale);
        find_numbers();
    }

    // Folded, with these numbers.
    explicit ChainWeight(const Matrix& matrix)
        : outputs(matrix.rows),
          inputs(matrix.columns),
          coding(Coding::kFolded),
          elements(matrix.elements),
          folded(elements, outputs, inputs, emulator::Order::kShuffled) {
        find_numbers();
    }

    void find_numbers() {
        for (const bf16 element : elements) numbers.push_back(__bfloat162float(element));
    }

    // A row of every eight has a number of its lane's own, and one that no table has.
    void fold(float scale) {
        for (int row = 5; row < outputs; row += 8) {
            elements[size_t(row) * inputs + 8] = __float2bfloat16(1e-20f);
            elements[size_t(row) * inputs + 9] = __float2bfloat16(10 * scale);
        }
        folded = Folded(elements, outputs, inputs, emulator::Order::kShuffled);
    }

    bool is_folded() const { return coding == Coding::kFolded; }
    bool is_narrow() const { return coding > Coding::kFolded; }
    uint32_t stage_inputs() const { return kWarps * (is_narrow() ? kSegment : kSlice); }

    Scales grid() const {
        if (!is_narrow()) return {};
        const bool grouped = coding >= Coding::kBlocks;
        const uint32_t segments = inputs / kSegment, each = coding == Coding::kWideBlocks ? 2 : 1;
        const uint32_t rows = coding == Coding::kOneScale ? outputs : coding == Coding::kScaledRows ? 1 : 128;
        return {scales.data(), rows, grouped ? (segments + each - 1) / each : 1, grouped ? each : segments};
    }

    // As chain/weight.rs describes them to the copy engine.
    void describe(TensorMap (&maps)[2], bool gated) const {
        if (!is_folded()) {
            maps[0] = map(gated);
            return;
        }
        const uint64_t units = folded.blocks, pairs = units / 2, segments = Folded::segments(inputs), parts = gated ? 2 : 1;
        const uint64_t unit = kUnitBytes, head = kHeadBytes;
        maps[0] = emulator::make_map(folded.units.data(), {unit / 8, 2, pairs, segments},
                                     {gated ? pairs * unit : unit, gated ? unit : 2 * unit, units * unit}, {kUnitBytes / 8, 2, 1, 4},
                                     emulator::kWord);
        maps[1] = emulator::make_map(folded.heads.data(), {head / 4, parts, pairs / parts, segments},
                                     {pairs * head, 2 * head, units * head}, {kHeadBytes / 4, uint32_t(parts), 1, 4}, emulator::kWord);
    }

    TensorMap map(bool gated) const {
        const uint64_t row = is_narrow() ? inputs : 2 * inputs, slices = row / 128, all = outputs;
        const void* from = is_narrow() ? static_cast<const void*>(codes.data()) : elements.data();
        if (!gated) return emulator::make_map(from, {kSlice, all, slices}, {row, 128}, {kSlice, kOutputs, kWarps});
        return emulator::make_map(from, {kSlice, 8, 2, all / kOutputs, slices}, {row, all / 2 * row, 8 * row, 128},
                                  {kSlice, 8, 2, 1, kWarps});
    }

    void fill_codes(float scale) {
        const Scales how = grid();
        scales.resize(size_t((outputs + how.block_rows - 1) / how.block_rows) * how.groups);
        for (float& each : scales) each = scale * (0.5f + std::abs(random_numbers().number()));
        codes.resize(size_t(outputs) * inputs);
        for (int row = 0; row < outputs; ++row) {
            for (int column = 0; column < inputs; ++column) {
                const __nv_fp8_e4m3 code(random_numbers().number());
                const uint32_t segment = column / kSegment, within = column % kSegment, step = within / 16, in_step = within % 16;
                const uint32_t word = in_step % 8 / 2 * 8 + step, byte = in_step % 2 * 2 + in_step / 8;
                codes[size_t(row) * inputs + segment * kSegment + word * 4 + byte] = code.__x;
                const float* of_row = scales.data() + row / how.block_rows * how.groups;
                numbers.push_back(double(float(code)) * of_row[segment / how.group_segments]);
            }
        }
    }

    // Row by row, in double precision.
    std::vector<double> times(const Matrix& x) const {
        std::vector<double> results;
        for (int row = 0; row < x.rows; ++row) {
            for (int output = 0; output < outputs; ++output) {
                double sum = 0;
                for (int i = 0; i < inputs; ++i) sum += numbers[size_t(output) * inputs + i] * x.at(row, i);
                results.push_back(sum);
            }
        }
        return results;
    }
};

// A product that leaves bf16 in `out`; what else surrounds it is set by those who need it.
inline ChainLink product_link(const ChainWeight& weight, LinkKind kind, const Matrix& x, Matrix& out) {
    ChainLink link{};
    weight.describe(link.maps, kind == LinkKind::kGated);
    link.kind = kind;
    link.groups = (weight.outputs + kOutputs - 1) / kOutputs;
    link.stages = (weight.inputs + weight.stage_inputs() - 1) / weight.stage_inputs();
    link.inputs = weight.inputs;
    link.x = x.elements.data();
    link.x_stride = x.stride;
    link.linear = {};
    link.linear.out = out.elements.data();
    link.linear.out_stride = out.stride;
    link.linear.rows = x.rows;
    link.linear.outputs = weight.outputs;
    link.linear.stages = link.stages;
    link.linear.scales = weight.grid();
    if (weight.is_folded()) link.linear.strays = weight.folded.strays.data();
    return link;
}

// The end of a layer: adds to the residual, and leaves sums of squares for those who read the norm late.
struct Onward {
    Matrix residual;
    std::vector<float> norm;
    std::vector<float> squares;

    Onward(int rows, int width) : residual(Matrix::random(rows, width)), squares(rows * ((width + 15) / 16), NAN) {
        for (int i = 0; i < width; ++i) norm.push_back(1.0f + 0.1f * random_numbers().number());
    }

    uint32_t parts() const { return squares.size() / residual.rows; }

    void end(ChainLink& link) {
        link.linear.residual = residual.elements.data();
        link.linear.residual_stride = residual.stride;
        link.linear.norm = norm.data();
        link.linear.next_squares = squares.data();
        link.linear.next_parts = parts();
    }

    void complete(ChainLink& link) const {
        link.linear.squares = squares.data();
        link.linear.parts = parts();
        link.linear.width = residual.columns;
        link.linear.eps = 1e-6f;
    }
};

inline uint32_t room_of(const ChainLink& link) {
    if (link.kind == LinkKind::kAttend) return kWarps * (link.attend.group * kHeadStride * 4 + kMostHeads * 8);
    const uint32_t stage = kWarps * (link.linear.scales.values ? kSegment : kSlice);
    return link.linear.rows * (link.stages * stage * 2 + kRowGap);
}

// As chain/variety.rs finds it: weights of all links are alike, and caches are.
inline auto kernel_for(const std::vector<ChainLink>& links) {
    bool weights[3] = {}, caches[2] = {};
    for (const ChainLink& link : links) {
        if (link.kind == LinkKind::kAttend) {
            caches[link.attend.element == 1] = true;
        } else {
            weights[link.linear.scales.values ? 2 : link.linear.strays ? 1 : 0] = true;
        }
    }
    if (weights[0] + weights[1] + weights[2] > 1 || caches[0] + caches[1] > 1) {
        report("a chain", false, "has links that no kernel runs together");
    }
    if (weights[1]) return caches[1] ? chain_folded_kv8 : chain_folded;
    return weights[2] ? (caches[1] ? chain_w8_kv8 : chain_w8) : (caches[1] ? chain_kv8 : chain);
}

// Memory that all chains share, with the mail of those before.
struct ChainMachine {
    ChainProgress progress{};
    std::vector<uint64_t> results = std::vector<uint64_t>(3 * kMostRows * kResultWords);
    std::vector<uint64_t> squares = std::vector<uint64_t>(3 * kMostRows * kSquareWords);

    // Links that are not there may need `least_room` for their rows.
    void run(const std::vector<ChainLink>& links, uint32_t blocks, emulator::Order order = emulator::Order::kForward,
             uint32_t least_room = 0) {
        ChainParams params{};
        params.x_room = least_room;
        for (const ChainLink& link : links) params.x_room = std::max(params.x_room, room_of(link));
        params.x_room = (params.x_room + 1023) / 1024 * 1024;
        params.ring = std::min<uint32_t>(kMostStages, (kWholeSharedRoom - kRestRoom - params.x_room) / kStageBytes);
        params.links = links.size() > 1 ? links.data() : nullptr;
        params.progress = &progress;
        params.results = results.data();
        params.squares = squares.data();
        params.count = links.size();
        params.only = links[0];
        const uint32_t age = progress.age;
        const auto kernel = kernel_for(links);
        emulator::launch({blocks, kThreads, kWholeSharedRoom, order}, [&] { kernel(params); });
        if (progress.age != age + links.size() || progress.done != 0) report("a chain", false, "leaves no room for the next");
    }
};
