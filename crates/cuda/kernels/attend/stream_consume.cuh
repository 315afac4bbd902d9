// The computing warps: scores of a unit, softmax weights, weighted sums.
#pragma once
#include "stream_fresh.cuh"
#include "stream_merge.cuh"
#include "stream_tile.cuh"

template <typename Shape>
struct StreamConsumer {
    static constexpr int kDim = Shape::kDim;
    static constexpr int kColumns = Shape::kColumns;
    using Tile = StreamTile<Shape>;
    static constexpr bool kNarrow = Shape::kNarrow;
    static constexpr int kGroups = Shape::kGroups;
    // Steps of sixteen elements, and how many of them a warp sums.
    static constexpr int kSteps = kDim / 16;
    static constexpr int kMine = kSteps > kWarps ? kSteps / kWarps : 1;
    using Chunk = Result<kMine, kGroups>;
    using Partials = StreamPartials<kDim, kColumns, kMine>;

    const StreamParams& p;
    const AttendParams& a;
    const Shape& shape;
    const uint32_t head;
    const uint32_t warp = threadIdx.x / 32;
    const uint32_t lane = threadIdx.x % 32;
    FixedPipelineState<Shape::kBuffers> at;
    StreamFresh<Shape> new_tokens;
    uint32_t query[kGroups][kSteps][2];
    Chunk chunk;
    // The merged chunks of the row so far, without one that has ended and is still to be merged.
    Chunk result;
    bool is_left = false;

    __device__ StreamConsumer(const StreamParams& params, const Shape& shared, uint32_t kv_head)
        : p(params), a(params.attend), shape(shared), head(kv_head), new_tokens(params, shared, kv_head) {}

    __device__ static void sync_warps() { named_barrier_sync(kMeeting, kComputing); }

    // Uses all units; then merges the shared rows for which this block was the last one.
    __device__ void run(const StreamStart& start) {
        const uint4 plan = start.place;
        const bool rotates = p.fresh.slots != nullptr;
        bool streams = plan.x < plan.y, shares = false, asks = rotates;
        if (rotates && streams) new_tokens.begin(plan.z, plan.w);
        uint32_t number = 0, looked_at = 0;
        result.clear();
#pragma unroll 1
        for (;;) {
            RowName row;
            if (streams) {
                if (asks) new_tokens.ask();
                wait_full(at);
                const Unit unit = shape.control->units[number++ % kUnitsKnown];
                asks = rotates && unit.has(kOpensRow);
                if (unit.has(kOpensRow)) open_row(unit);
                use_unit(unit);
                row = {unit.first_token, unit.first_column, unit.used()};
                streams = !unit.has(kIsLast);
                const bool is_done = unit.has(kEndsChunk) && end_chunk(unit);
                shares |= unit.slot != kAlone;
                if (!streams && shares) count();
                if (!is_done) continue;
            } else {
                if (!shares || looked_at == 2) break;
                const SharedRow& shared = shape.control->shared_rows[looked_at];
                const uint32_t added = shape.control->added[looked_at++];
                if (added == 0) continue;
                Partials(a, shared.slot, head)
                    .template add_up<Shape::kBuffers * Shape::kBuffer>(shared.chunks, added, shape.ring, result);
                row = {shared.first_token, shared.first_column, shared.used};
            }
            write(row);
        }
        wait_on_dependent_grids();
        // The row after the last one may have been requested; its copies land in this block's memory.
        cp_async_wait<0>();
    }

private:
    struct RowName {
        uint32_t first_token;
        uint32_t first_column;
        uint32_t used;
    };

    // Merges a chunk into its row, or stores it for the block that merges the row; true when the row is done. A merge that can
    // wait is deferred until there is a wait to overlap with.
    __device__ bool end_chunk(const Unit& unit) {
        const bool adds_up = unit.has(kAddsUp);
        if (!adds_up || unit.chunk == 0) result.clear();
        is_left = adds_up && !unit.has(kEndsRow);
        if (is_left) return false;
        result.add(chunk);
        if (unit.slot == kAlone) return true;
        Partials(a, unit.slot, head).store(adds_up ? 0 : unit.chunk, result);
        return false;
    }

    // Merges the deferred chunk, or nothing; branch-free, so that it overlaps with MMAs.
    __device__ void add_left(bool begins) {
        Chunk left = chunk;
        left.keep(is_left);
        result.add(left);
        chunk.keep(!begins);
        is_left = false;
    }

    // Writes the result of a row. Two neighbours of one column meet in a lane, as they are or exchanged.
    __device__ void write(const RowName& row) {
        if (a.sinks) {
            float sinks[kGroups][2];
#pragma unroll
            for (int group = 0; group < kGroups; ++group) {
#pragma unroll
                for (int i = 0; i < 2; ++i) {
                    const uint32_t column = row.first_column + group * kGroupColumns + lane % 4 * 2 + i;
                    sinks[group][i] = a.sinks[head * a.group + p.head_of(column)];
                }
            }
            result.add_sinks(sinks);
        }
        if (warp * kMine >= kSteps) return;
#pragma unroll
        for (int group = 0; group < kGroups; ++group) {
            const float factors[2] = {1.0f / result.total[group][0], 1.0f / result.total[group][1]};
            if constexpr (kNarrow) {
#pragma unroll
                for (int i = 0; i < 2; ++i) {
                    const Place place(*this, row, group * kGroupColumns + lane % 4 * 2 + i);
#pragma unroll
                    for (int mine = 0; mine < kMine; ++mine) {
                        const float(&sum)[4] = result.sum[mine][group];
                        place.put((warp * kMine + mine) * 16 + lane / 4 * 2,
                                  pack_bf16(sum[i] * factors[i], sum[i + 2] * factors[i]));
                    }
                }
            } else {
                const Place place(*this, row, group * kGroupColumns + lane / 4);
#pragma unroll
                for (int mine = 0; mine < kMine; ++mine) {
                    const float(&sum)[4] = result.sum[mine][group];
#pragma unroll
                    for (int i = 0; i < 2; ++i) {
                        const uint32_t pair =
                            movmatrix_trans(pack_bf16(sum[2 * i] * factors[0], sum[2 * i + 1] * factors[1]));
                        place.put((warp * kMine + mine) * 16 + i * 8 + lane % 4 * 2, pair);
                    }
                }
            }
        }
    }

    // Where the result of a column lies.
    struct Place {
        bf16* out;
        uint32_t end;

        __device__ Place(const StreamConsumer& by, const RowName& row, uint32_t column) {
            const uint32_t number = row.first_column + column, token = row.first_token + by.p.token_of(number);
            out = by.a.out + static_cast<size_t>(token) * by.a.out_stride +
                  (by.head * by.a.group + by.p.head_of(number)) * by.a.head_dim;
            end = column < row.used ? by.a.head_dim : 0;
        }

        __device__ void put(uint32_t element, uint32_t pair) const {
            if (element < end) *reinterpret_cast<uint32_t*>(out + element) = pair;
        }
    };

    // Prepares the queries of a row and column block; all warps are done with the previous ones.
    __device__ void open_row(const Unit& unit) {
        if (p.fresh.slots) {
            new_tokens.open(unit);
        } else {
            wait_on_dependent_grids();
            take_rotated(unit);
        }
        sync_warps();
        take_query();
    }

    __device__ void take_rotated(const Unit& unit) const {
#pragma unroll 1
        for (uint32_t column = warp; column < kColumns; column += kWarps) {
            const uint32_t number = column < unit.used() ? unit.first_column + column : 0;
            const uint32_t filled = column < unit.used() ? a.head_dim : 0;
            const bf16* from = a.query + static_cast<size_t>(unit.first_token + p.token_of(number)) * a.query_stride +
                               (head * a.group + p.head_of(number)) * a.head_dim;
#pragma unroll 1
            for (uint32_t vector = lane; vector < kDim / 8; vector += 32) {
                reinterpret_cast<uint4*>(shape.control->query[column])[vector] =
                    vector * 8 < filled ? reinterpret_cast<const uint4*>(from)[vector] : uint4{};
            }
        }
    }

    // Counts finished chunks of shared rows, and in the upper bits those already merged; the block that completes a row's count
    // merges the rest.
    __device__ void count() const {
        // All partial results are written before the counter is raised.
        __threadfence();
        sync_warps();
        if (threadIdx.x == 0 || threadIdx.x == 32) {
            const SharedRow& row = shape.control->shared_rows[warp];
            uint32_t* arrivals = a.arrivals + row.slot * a.kv_heads + head;
            const uint32_t mine = row.done | row.added << 16, all = row.done > 0 ? atomicAdd(arrivals, mine) + mine : 0;
            const bool done = row.done > 0 && (all & 0xffff) == row.chunks;
            if (done) *arrivals = 0;
            shape.control->added[warp] = done ? all >> 16 : 0;
        }
        sync_warps();
        __threadfence();
    }

    // Queries as operand B: this lane has column `lane / 4` of each group, and in each step two pairs of elements in the order
    // in which keys come.
    __device__ void take_query() {
#pragma unroll
        for (int group = 0; group < kGroups; ++group) {
            const bf16* from = shape.control->query[group * kGroupColumns + lane / 4];
#pragma unroll
            for (int step = 0; step < kSteps; ++step) {
#pragma unroll
                for (int pair = 0; pair < 2; ++pair) {
                    const uint32_t element = step * 16 + (kNarrow ? lane % 4 * 4 + pair * 2 : lane % 4 * 2 + pair * 8);
                    if constexpr (kNarrow) {
                        const float2 both = __bfloat1622float2(*reinterpret_cast<const __nv_bfloat162*>(from + element));
                        query[group][step][pair] = pack_f16(both.x, both.y);
                    } else {
                        query[group][step][pair] = *reinterpret_cast<const uint32_t*>(from + element);
                    }
                }
            }
        }
    }

    __device__ uint8_t* buffer(uint32_t stage) const { return shape.ring + stage * Shape::kBuffer; }

    __device__ void wait_full(const FixedPipelineState<Shape::kBuffers>& place) const {
        shape.control->full[place.index].wait(place.parity);
    }

    // This warp is done with the next buffer.
    __device__ void release() {
        if (lane == 0) shape.control->empty[at.index].arrive();
        at.advance();
    }

    __device__ void use_unit(const Unit& unit) {
        const uint32_t fresh = unit.old - unit.first;
        const bool is_fresh = p.fresh.slots && fresh < kUnit;
        FixedPipelineState<Shape::kBuffers> keys = at;
        if (warp >= kWarps / 2) {
            keys.advance();
            wait_full(keys);
        }
        if (is_fresh && fresh / kTile == warp) {
            put_row(buffer(keys.index), fresh % kHalf, shape.control->key);
            __syncwarp();
        }
        float scores[kGroups][4];
        score(shared_address(buffer(keys.index)), scores);
        add_left(unit.has(kBeginsChunk));
        __syncwarp();
        release();
        release();
        bound(scores);
        if (unit.has(kIsEdge)) hide(unit, scores);
        show_maxima(scores);
        sync_warps();
        float kept[kGroups][2];
        weigh(scores, kept);
        if (unit.has(kIsEdge)) clear_unseen(unit, is_fresh ? fresh : kUnit);
        sync_warps();
        mix(kept);
    }

    // Copies one row of a buffer from shared memory; called by a warp.
    __device__ void put_row(uint8_t* to, uint32_t row, const uint8_t* from) const {
#pragma unroll 1
        for (uint32_t vector = lane; vector < Shape::kSlices * 8; vector += 32) {
            *reinterpret_cast<uint4*>(to + Shape::place(row, vector)) = reinterpret_cast<const uint4*>(from)[vector];
        }
        publish_shared();
    }

    // Clears invisible values, since a weight of zero times garbage could be NaN, and writes a new value.
    __device__ void clear_unseen(const Unit& unit, uint32_t fresh) const {
        FixedPipelineState<Shape::kBuffers> values = at;
#pragma unroll 1
        for (uint32_t half = 0; half < kUnit; half += kHalf, values.advance()) {
            const uint32_t begin = min(max(unit.begin(), half) - half, kHalf), end = min(max(unit.end(), half) - half, kHalf);
            const bool is_new = fresh - half < kHalf;
            if (begin == 0 && end == kHalf && !is_new) continue;
            wait_full(values);
            uint8_t* to = buffer(values.index);
            clear_rows(to, 0, begin);
            clear_rows(to, end, kHalf);
            publish_shared();
            if (warp == kWarps - 1 && is_new) put_row(to, fresh - half, shape.control->value);
        }
    }

    // Rows of a buffer are contiguous in each slice of it.
    __device__ static void clear_rows(uint8_t* to, uint32_t begin, uint32_t end) {
#pragma unroll 1
        for (uint32_t slice = 0; slice < Shape::kSlices; ++slice, to += Shape::kSliceBytes) {
#pragma unroll 1
            for (uint32_t byte = begin * 128 + threadIdx.x * 16; byte < end * 128; byte += kComputing * 16) {
                *reinterpret_cast<uint4*>(to + byte) = uint4{};
            }
        }
    }

    // scores = K·Qᵀ of this warp's sixteen positions: rows are positions. Several accumulators in turn, so that no MMA waits for
    // the previous one.
    __device__ void score(uint32_t keys, float (&scores)[kGroups][4]) const {
        constexpr int kSums = kGroups == 1 ? 4 : 2;
        const uint32_t row = warp % (kWarps / 2) * kTile + lane % 16, first = keys + row * 128 + (lane / 16 ^ row % 8) * 16;
        float sums[kSums][kGroups][4] = {};
        const auto add = [&](int step, const uint32_t(&x)[4]) {
#pragma unroll
            for (int group = 0; group < kGroups; ++group) {
                Tile::multiply(sums[step % kSums][group], x, query[group][step][0], query[group][step][1]);
            }
        };
        if constexpr (kNarrow) {
#pragma unroll
            for (int step = 0; step < kSteps; step += 2) {
                uint32_t bytes[4];
                ldmatrix(bytes, (first ^ step % 8 * 16) + step / 8 * Shape::kSliceBytes);
#pragma unroll
                for (int half = 0; half < 2; ++half) {
                    const uint32_t x[4] = {widen_fp8(bytes[2 * half]), widen_fp8(bytes[2 * half + 1]),
                                           widen_fp8(bytes[2 * half] >> 16), widen_fp8(bytes[2 * half + 1] >> 16)};
                    add(step + half, x);
                }
            }
        } else {
#pragma unroll
            for (int step = 0; step < kSteps; ++step) {
                uint32_t x[4];
                ldmatrix(x, (first ^ step % 4 * 32) + step / 4 * Shape::kSliceBytes);
                add(step, x);
            }
        }
#pragma unroll
        for (int group = 0; group < kGroups; ++group) {
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                float sum = sums[0][group][i] + sums[1][group][i];
                if constexpr (kSums == 4) sum += sums[2][group][i] + sums[3][group][i];
                scores[group][i] = sum;
            }
        }
    }

    __device__ void bound(float (&scores)[kGroups][4]) const {
        if (a.soft_cap <= 0.0f) return;
        const float inner = a.scale / a.soft_cap, outer = a.soft_cap / a.scale;
#pragma unroll
        for (int group = 0; group < kGroups; ++group) {
#pragma unroll
            for (int i = 0; i < 4; ++i) scores[group][i] = outer * tanhf(scores[group][i] * inner);
        }
    }

    // Masks scores that a column must not see.
    __device__ void hide(const Unit& unit, float (&scores)[kGroups][4]) const {
#pragma unroll
        for (int group = 0; group < kGroups; ++group) {
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                const uint32_t column = unit.first_column + group * kGroupColumns + lane % 4 * 2 + i % 2;
                const uint32_t position = unit.first + warp * kTile + lane / 4 + i / 2 * 8, own = unit.old + p.token_of(column);
                if (position > own || own - position >= a.window) scores[group][i] = -INFINITY;
            }
        }
    }

    __device__ void show_maxima(const float (&scores)[kGroups][4]) const {
#pragma unroll
        for (int group = 0; group < kGroups; ++group) {
#pragma unroll
            for (int i = 0; i < 2; ++i) {
                float largest = fmaxf(scores[group][i], scores[group][i + 2]);
#pragma unroll
                for (int offset = 4; offset < 32; offset *= 2) {
                    largest = fmaxf(largest, __shfl_xor_sync(kAllLanes, largest, offset));
                }
                if (lane < 4) shape.control->maxima[group * kGroupColumns + lane * 2 + i][warp] = largest;
            }
        }
    }

    // Online softmax, written to shared memory for all warps; `kept` is the rescale factor of earlier sums.
    __device__ void weigh(float (&scores)[kGroups][4], float (&kept)[kGroups][2]) {
        const float scale = a.scale * kLog2E;
#pragma unroll
        for (int group = 0; group < kGroups; ++group) {
#pragma unroll
            for (int i = 0; i < 2; ++i) {
                const float* shown = shape.control->maxima[group * kGroupColumns + lane % 4 * 2 + i];
                const float4 low = *reinterpret_cast<const float4*>(shown), high = *reinterpret_cast<const float4*>(shown + 4);
                const float here = fmaxf(fmaxf(fmaxf(low.x, low.y), fmaxf(low.z, low.w)),
                                         fmaxf(fmaxf(high.x, high.y), fmaxf(high.z, high.w)));
                const float largest = fmaxf(here * scale, chunk.max[group][i]);
                kept[group][i] = power_of_two(chunk.max[group][i] - largest);
                chunk.max[group][i] = largest;
                scores[group][i] = power_of_two(scores[group][i] * scale - largest);
                scores[group][i + 2] = power_of_two(scores[group][i + 2] * scale - largest);
            }
            shape.control->weights[group][warp][lane] =
                make_uint2(movmatrix_trans(Tile::pack(scores[group][0], scores[group][1])),
                           movmatrix_trans(Tile::pack(scores[group][2], scores[group][3])));
        }
    }

    // sums = kept · sums + Vᵀ·Pᵀ: rows are this warp's elements. The sum of weights is an MMA with ones.
    __device__ void mix(const float (&kept)[kGroups][2]) {
        constexpr uint32_t kOnes = kNarrow ? 0x3c003c00u : 0x3f803f80u;
        constexpr uint32_t kOne[4] = {kOnes, kOnes, kOnes, kOnes};
        // Even and odd tiles have separate accumulators, so that no MMA waits for the previous one.
        float totals[2][kGroups][4] = {}, others[kMine][kGroups][4] = {};
#pragma unroll
        for (int group = 0; group < kGroups; ++group) {
#pragma unroll
            for (int mine = 0; mine < kMine; ++mine) {
#pragma unroll
                for (int i = 0; i < 4; ++i) chunk.sum[mine][group][i] *= kept[group][i % 2];
            }
        }
        const bool has_elements = warp * kMine < kSteps;
#pragma unroll
        for (int tile = 0; tile < kWarps; tile += 2) {
            constexpr int kEach = kWarps / 2;
            uint2 weights[2][kGroups];
#pragma unroll
            for (int which = 0; which < 2; ++which) {
#pragma unroll
                for (int group = 0; group < kGroups; ++group) {
                    weights[which][group] = shape.control->weights[group][tile + which][lane];
                }
            }
            if (tile % kEach == 0) wait_full(at);
            const uint32_t values = shared_address(buffer(at.index)) + tile % kEach * kTile * 128;
            if (has_elements) {
#pragma unroll
                for (int mine = 0; mine < kMine; ++mine) {
                    uint32_t x[2][4];
                    Tile::load_values(values, warp * kMine + mine, x);
#pragma unroll
                    for (int group = 0; group < kGroups; ++group) {
                        Tile::multiply(chunk.sum[mine][group], x[0], weights[0][group].x, weights[0][group].y);
                        Tile::multiply(others[mine][group], x[1], weights[1][group].x, weights[1][group].y);
                    }
                }
            }
#pragma unroll
            for (int which = 0; which < 2; ++which) {
#pragma unroll
                for (int group = 0; group < kGroups; ++group) {
                    Tile::multiply(totals[which][group], kOne, weights[which][group].x, weights[which][group].y);
                }
            }
            if (tile % kEach == kEach - 2) {
                __syncwarp();
                release();
            }
        }
#pragma unroll
        for (int group = 0; group < kGroups; ++group) {
#pragma unroll
            for (int i = 0; i < 2; ++i) {
                const float total = totals[0][group][i] + totals[1][group][i];
                chunk.total[group][i] = chunk.total[group][i] * kept[group][i] + total;
            }
#pragma unroll
            for (int mine = 0; mine < kMine; ++mine) {
#pragma unroll
                for (int i = 0; i < 4; ++i) chunk.sum[mine][group][i] += others[mine][group][i];
            }
        }
    }
};
