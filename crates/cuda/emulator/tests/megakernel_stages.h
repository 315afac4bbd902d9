// Stages as megakernel/stage.rs makes them, launched as megakernel/mod.rs does.
#pragma once
#include <algorithm>

#include "megakernel.cu"
#include "bf12_weight.h"

constexpr uint32_t kWholeSharedRoom = 232448;

// Weight formats: bf16, bf12, e4m3 with a scale for all, a scale per output, or one for 128 outputs and 128 or 256 inputs.
enum class Coding { kBf16, kBf12, kOneScale, kScaledRows, kBlocks, kWideBlocks };

// A weight: its numbers, and as the kernel reads it.
struct StageWeight {
    int outputs;
    int inputs;
    Coding coding;
    std::vector<double> numbers;
    std::vector<bf16> elements;
    // Ordered as common/float8.cuh says.
    std::vector<uint8_t> codes;
    std::vector<float> scales;
    Bf12Copy bf12;

    // Scaled so that results are about as large as inputs.
    StageWeight(int output_count, int input_count, Coding how = Coding::kBf16)
        : outputs(output_count), inputs(input_count), coding(how) {
        const float scale = 1.0f / std::sqrt(float(inputs));
        if (is_narrow()) {
            fill_codes(scale);
            return;
        }
        for (size_t i = 0; i < size_t(outputs) * inputs; ++i) elements.push_back(random_numbers().bf16_number(scale));
        if (is_bf12()) encode(scale);
        find_numbers();
    }

    // Encoded as bf12, with these numbers.
    explicit StageWeight(const Matrix& matrix)
        : outputs(matrix.rows),
          inputs(matrix.columns),
          coding(Coding::kBf12),
          elements(matrix.elements),
          bf12(elements, outputs, inputs, emulator::Order::kShuffled) {
        find_numbers();
    }

    void find_numbers() {
        for (const bf16 element : elements) numbers.push_back(__bfloat162float(element));
    }

    // One row in eight has a number of its lane's own, and one that no table has.
    void encode(float scale) {
        for (int row = 5; row < outputs; row += 8) {
            elements[size_t(row) * inputs + 8] = __float2bfloat16(1e-20f);
            elements[size_t(row) * inputs + 9] = __float2bfloat16(10 * scale);
        }
        bf12 = Bf12Copy(elements, outputs, inputs, emulator::Order::kShuffled);
    }

    bool is_bf12() const { return coding == Coding::kBf12; }
    bool is_narrow() const { return coding > Coding::kBf12; }
    uint32_t tile_inputs() const { return kWarps * (is_narrow() ? kSegment : kSlice); }

    Scales grid() const {
        if (!is_narrow()) return {};
        const bool grouped = coding >= Coding::kBlocks;
        const uint32_t segments = inputs / kSegment, each = coding == Coding::kWideBlocks ? 2 : 1;
        const uint32_t rows = coding == Coding::kOneScale ? outputs : coding == Coding::kScaledRows ? 1 : 128;
        return {scales.data(), rows, grouped ? (segments + each - 1) / each : 1, grouped ? each : segments};
    }

    // The tensor maps of megakernel/weight.rs.
    void describe(TensorMap (&maps)[2], bool gated) const {
        if (!is_bf12()) {
            maps[0] = map(gated);
            return;
        }
        const uint64_t units = bf12.blocks, pairs = units / 2, segments = Bf12Copy::segments(inputs), parts = gated ? 2 : 1;
        const uint64_t unit = kUnitBytes, head = kHeaderBytes;
        maps[0] = emulator::make_map(bf12.units.data(), {unit / 8, 2, pairs, segments},
                                     {gated ? pairs * unit : unit, gated ? unit : 2 * unit, units * unit}, {kUnitBytes / 8, 2, 1, 4},
                                     emulator::kWord);
        maps[1] = emulator::make_map(bf12.headers.data(), {head / 4, parts, pairs / parts, segments},
                                     {pairs * head, 2 * head, units * head}, {kHeaderBytes / 4, uint32_t(parts), 1, 4}, emulator::kWord);
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

// A GEMM that leaves bf16 in `out`; the caller sets other epilogue parameters.
inline Stage gemm_stage(const StageWeight& weight, StageKind kind, const Matrix& x, Matrix& out) {
    Stage stage{};
    weight.describe(stage.maps, kind == StageKind::kGated);
    stage.kind = kind;
    stage.groups = (weight.outputs + kOutputs - 1) / kOutputs;
    stage.tiles = (weight.inputs + weight.tile_inputs() - 1) / weight.tile_inputs();
    stage.inputs = weight.inputs;
    stage.x = x.elements.data();
    stage.x_stride = x.stride;
    stage.linear = {};
    stage.linear.out = out.elements.data();
    stage.linear.out_stride = out.stride;
    stage.linear.rows = x.rows;
    stage.linear.outputs = weight.outputs;
    stage.linear.stages = stage.tiles;
    stage.linear.scales = weight.grid();
    if (weight.is_bf12()) stage.linear.outliers = weight.bf12.outliers.data();
    return stage;
}

// Residual add: leaves the residual, and sums of squares for readers with a deferred RMS scale.
struct AddNorm {
    Matrix residual;
    std::vector<float> norm;
    std::vector<float> squares;

    AddNorm(int rows, int width) : residual(Matrix::random(rows, width)), squares(rows * ((width + 15) / 16), NAN) {
        for (int i = 0; i < width; ++i) norm.push_back(1.0f + 0.1f * random_numbers().number());
    }

    uint32_t parts() const { return squares.size() / residual.rows; }

    void end(Stage& stage) {
        stage.linear.residual = residual.elements.data();
        stage.linear.residual_stride = residual.stride;
        stage.linear.norm = norm.data();
        stage.linear.next_squares = squares.data();
        stage.linear.next_parts = parts();
    }

    void complete(Stage& stage) const {
        stage.linear.squares = squares.data();
        stage.linear.parts = parts();
        stage.linear.width = residual.columns;
        stage.linear.eps = 1e-6f;
    }
};

inline uint32_t room_of(const Stage& stage) {
    if (stage.kind == StageKind::kAttend) return kWarps * (stage.attend.group * kHeadStride * 4 + kMostHeads * 8);
    const uint32_t tile = kWarps * (stage.linear.scales.values ? kSegment : kSlice);
    return stage.linear.rows * (stage.tiles * tile * 2 + kRowGap);
}

// As megakernel/variety.rs chooses it: all weights have one format, and so have all caches.
inline auto kernel_for(const std::vector<Stage>& stages) {
    bool weights[3] = {}, caches[2] = {};
    for (const Stage& stage : stages) {
        if (stage.kind == StageKind::kAttend) {
            caches[stage.attend.element == 1] = true;
        } else {
            weights[stage.linear.scales.values ? 2 : stage.linear.outliers ? 1 : 0] = true;
        }
    }
    if (weights[0] + weights[1] + weights[2] > 1 || caches[0] + caches[1] > 1) {
        report("a megakernel", false, "has stages that no kernel runs together");
    }
    if (weights[1]) return caches[1] ? megakernel_bf12_kv8 : megakernel_bf12;
    return weights[2] ? (caches[1] ? megakernel_w8_kv8 : megakernel_w8) : (caches[1] ? megakernel_kv8 : megakernel);
}

// Memory that all launches share, with the messages of earlier ones.
struct MegakernelRun {
    MegakernelProgress progress{};
    std::vector<uint64_t> results = std::vector<uint64_t>(3 * kMostRows * kResultWords);
    std::vector<uint64_t> squares = std::vector<uint64_t>(3 * kMostRows * kSquareWords);

    // Rows of other stages may need `least_room`.
    void run(const std::vector<Stage>& stages, uint32_t blocks, emulator::Order order = emulator::Order::kForward,
             uint32_t least_room = 0) {
        MegakernelParams params{};
        params.x_room = least_room;
        for (const Stage& stage : stages) params.x_room = std::max(params.x_room, room_of(stage));
        params.x_room = (params.x_room + 1023) / 1024 * 1024;
        params.ring = std::min<uint32_t>(kMaxTiles, (kWholeSharedRoom - kRestRoom - params.x_room) / kTileBytes);
        params.stages = stages.size() > 1 ? stages.data() : nullptr;
        params.progress = &progress;
        params.results = results.data();
        params.squares = squares.data();
        params.count = stages.size();
        params.only = stages[0];
        const uint32_t epoch = progress.epoch;
        const auto kernel = kernel_for(stages);
        emulator::launch({blocks, kThreads, kWholeSharedRoom, order}, [&] { kernel(params); });
        if (progress.epoch != epoch + stages.size() || progress.done != 0) report("a megakernel", false, "leaves wrong counters");
    }
};
