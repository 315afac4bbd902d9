// A batch for `attend_stream`.
#pragma once
#include "attention_batch.h"

#include "attend_plan.cu"
#include "attend_stream.cu"

struct StreamBatch : AttentionBatch {
    std::vector<StreamPlan> plans;

    using AttentionBatch::AttentionBatch;

    void run() { run(shape.workers, shape.order); }

    // Alone: blocks have a multiprocessor each.
    void run(uint32_t workers, emulator::Order order = emulator::Order::kForward, bool alone = false) {
        StreamParams params = kernel_params();
        share(params.attend, workers);
        plan(params, order);
        const bool halves = 64 * shape.kernel_dim() * keys.element <= 16384 && !alone;
        const uint32_t room = halves ? kHalfRoom : kWholeRoom;
        emulator::launch({workers * shape.kv_heads, kThreads, room, order, take_back()}, [&] { kernel(alone)(params); });
    }

    // What is planned, and by how many blocks.
    PlanParams to_plan(const StreamParams& params) {
        return {params.attend, plans.data(), params.run, static_cast<uint32_t>(shape.columns())};
    }
    static uint32_t planning_blocks(const StreamParams& params) { return (params.attend.workers + kPlanners - 1) / kPlanners; }

    // Plans of the step before are there until the kernel before has ended, and homes are not.
    void plan(StreamParams& params, emulator::Order order) {
        const AttendParams& a = params.attend;
        StreamPlan old;
        memset(&old, emulator::kPoison, sizeof old);
        plans.assign(a.workers, old);
        const std::vector<uint32_t> complete = homes;
        std::fill(homes.begin(), homes.end(), 3);
        const auto before = [&] {
            for (const StreamPlan& plan : plans) {
                if (memcmp(&plan, &old, sizeof old) != 0) report(shape.name(), false, "plans while others read the plan before");
            }
            std::copy(complete.begin(), complete.end(), homes.begin());
        };
        const PlanParams planned = to_plan(params);
        emulator::launch({planning_blocks(params), kPlanThreads, 0, order, before}, [&] { plan_attention(planned); });
        params.plans = plans.data();
    }

    StreamParams kernel_params() {
        StreamParams p{};
        const uint64_t head = shape.dim * keys.element, heads = shape.kv_heads;
        p.run = std::gcd(shape.page, 64);
        const auto reciprocal = [](uint32_t of) { return ((1u << 31) + of - 1) / of; };
        p.by_group = reciprocal(shape.group);
        p.by_heads = reciprocal(shape.kv_heads);
        const auto cached = [&](const Cache& cache, uint32_t positions) {
            return emulator::make_map(cache.bytes.data(), {head / 2, heads, uint64_t(cache.rows)}, {head, heads * head},
                                      {64, 1, positions});
        };
        for (int i = 0; i < 2; ++i) {
            p.cached[i][0] = cached(keys, i ? kAtomRows : p.run);
            p.cached[i][1] = cached(values, i ? kAtomRows : p.run);
        }
        p.attend = attend_params();
        if (shape.rotates()) fill_new_tokens(p.fresh);
        return p;
    }

private:
    using Kernel = void (*)(StreamParams);

    Kernel kernel(bool alone) const {
        const bool many = shape.columns() == 16;
        if (alone) return many ? attend_stream_128_16_bf16_alone : attend_stream_128_8_bf16_alone;
        switch (shape.kernel_dim() + shape.narrow) {
            case 64: return many ? attend_stream_64_16_bf16 : attend_stream_64_8_bf16;
            case 128: return many ? attend_stream_128_16_bf16 : attend_stream_128_8_bf16;
            case 129: return many ? attend_stream_128_16_fp8 : attend_stream_128_8_fp8;
            case 256: return many ? attend_stream_256_16_bf16 : attend_stream_256_8_bf16;
            default: return many ? attend_stream_256_16_fp8 : attend_stream_256_8_fp8;
        }
    }

    void fill_new_tokens(FreshParams& params) const {
        params.key = given.elements.data() + shape.query_width();
        params.value = params.key + shape.kv_width();
        const bool wide = shape.norms == Norms::kFloat;
        if (shape.norms != Norms::kNone) {
            params.query_norm = wide ? static_cast<const void*>(query_norm.data()) : short_query_norm.data();
            params.key_norm = wide ? static_cast<const void*>(key_norm.data()) : short_key_norm.data();
        }
        params.positions = positions.data();
        params.table = angles.data();
        params.slots = slots.data();
        params.query_eps = kQueryEps;
        params.key_eps = kKeyEps;
        params.key_stride = params.value_stride = given.stride;
        params.wide_norms = wide;
    }
};
