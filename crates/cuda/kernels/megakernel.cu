// Decode megakernel: GEMMs and attention of one or two rows in one persistent kernel. Each op is a stage.
//
// The producer warp loads weights, keys and values as far ahead as the ring has room, across stage borders. Blocks pass
// results on as epoch-tagged messages, so there is no grid barrier between stages.
#include "megakernel/attend.cuh"
#include "megakernel/norm_factor_warp.cuh"
#include "megakernel/producer.cuh"
#include "megakernel/bf12.cuh"
#include "megakernel/gemm.cuh"
#include "common/registers.cuh"

// Computing warps, plus one warpgroup that holds the producer warp and the norm-factor warp.
constexpr int kThreads = kComputing + 128;
// Registers per thread at launch, of computing warps, and of the others. Their sum is fixed (setmaxnreg).
constexpr int kEven = 168, kMany = 216, kFew = 3 * kEven - 2 * kMany;
// Bytes after the ring and the rows of x; megakernel/mod.rs has the same number.
constexpr int kRestRoom = 9216;

struct SharedRest {
    // The current stage and the next one.
    Stage stages[2];
    union {
        ProductShared product;
        AttendShared attend;
    };
    KnownSplit known;
    float factors[2][kMostRows];
    Barrier factors_ready[2];
    Barrier full[kMaxTiles];
    Barrier empty[kMaxTiles];
};
static_assert(sizeof(SharedRest) <= kRestRoom, "fits");

// 16-byte vectors of a stage's parameters; each of the first threads copies one.
constexpr int kVectors = sizeof(Stage) / 16;

__device__ __forceinline__ void load_stage(Stage* to, const Stage* from) {
    if (threadIdx.x < kVectors) {
        reinterpret_cast<uint4*>(to)[threadIdx.x] = reinterpret_cast<const uint4*>(from)[threadIdx.x];
    }
    __syncwarp();
}

// cp.async of a stage's parameters; they are there after `cp_async_wait`.
__device__ __forceinline__ void prefetch_stage(Stage* to, const Stage* from) {
    if (threadIdx.x < kVectors) cp_async16(shared_address(to) + threadIdx.x * 16, reinterpret_cast<const uint4*>(from) + threadIdx.x);
    cp_async_commit();
}

template <class Weight, bool kNarrowCache>
__device__ __forceinline__ void compute(const MegakernelParams& p, const Stage* stages, uint32_t epoch, const Ring& ring,
                                        uint8_t* x, SharedRest* rest) {
    PipelineState place{0, 0};
    const uint32_t warp = warp_number();
    uint32_t norms = 0;
    const uint32_t inverse = GroupShare::inverse();
    load_stage(&rest->stages[0], stages);
#pragma unroll 1
    for (uint32_t i = 0; i < p.count; ++i) {
        cp_async_wait<0>();
        // All computing warps are done with the previous stage.
        named_barrier_sync(1, kComputing);
        if (i + 1 < p.count) prefetch_stage(&rest->stages[(i + 1) % 2], stages + i + 1);
        const Stage& stage = rest->stages[i % 2];
        const Messages messages(p, i, epoch);
        if (stage.kind == StageKind::kAttend) {
            StageAttention<kNarrowCache>(stage.attend, ring, messages, &rest->attend, &rest->known, x).run(place);
            continue;
        }
        NormFactors factors{&rest->factors_ready[norms % 2], rest->factors[norms % 2], norms / 2 % 2};
        const GroupShare share(stage.groups, inverse);
        if (NormFactorWarp::has_factors(stage, share)) ++norms;
        StageGemm<Weight>(stage, ring, messages, x, &rest->product, &factors, share, warp).run(place);
    }
}

// The last block to finish resets the counters for the next launch.
__device__ __forceinline__ void end(const MegakernelParams& p, uint32_t epoch) {
    named_barrier_sync(1, kComputing);
    if (threadIdx.x == 0 && atomicAdd(&p.progress->done, 1) + 1 == gridDim.x) {
        p.progress->epoch = epoch + p.count;
        p.progress->done = 0;
    }
}

template <class Weight, bool kNarrowCache>
__device__ __forceinline__ void run(const MegakernelParams& p, uint8_t* shared) {
    uint8_t* x = shared + p.ring * kTileBytes;
    SharedRest* rest = reinterpret_cast<SharedRest*>(x + p.x_room);
    const Stage* stages = p.stages ? p.stages : &p.only;
    const Ring ring{shared, rest->full, rest->empty, p.ring};
    if (threadIdx.x == 0) {
#pragma unroll 1
        for (uint32_t i = 0; i < p.ring; ++i) {
            ring.full[i].init(1);
            ring.empty[i].init(kWarps);
        }
        for (Barrier& ready : rest->factors_ready) ready.init(1);
        rest->known.page_table = nullptr;
        publish_barriers();
    }
    __syncthreads();
    const uint32_t warp = warp_number();
    if (warp >= kWarps) warpgroup_reg_dealloc<kFew>();
    if (warp == kWarps) {
        ProducerWarp<Weight>(stages, ring, GroupShare::inverse()).run(p.count);
        launch_dependent_grids();
        wait_on_dependent_grids();
        return;
    }
    wait_on_dependent_grids();
    const uint32_t epoch = __ldcg(&p.progress->epoch);
    if (warp == kWarps + 1) {
        NormFactorWarp{rest->factors_ready, rest->factors, GroupShare::inverse()}.run(p, stages, epoch);
        return;
    }
    if (warp > kWarps) return;
    warpgroup_reg_alloc<kMany>();
    compute<Weight, kNarrowCache>(p, stages, epoch, ring, x, rest);
    end(p, epoch);
}

// One kernel per weight format (bf16, e4m3, bf12) and KV cache format (bf16, e4m3): a kernel for several would not have
// enough registers to hold weights.
#define MEGAKERNEL(name, Weight, kNarrowCache)                                                                       \
    extern "C" __global__ void __launch_bounds__(kThreads, 1) name(const __grid_constant__ MegakernelParams p) {     \
        extern __shared__ __align__(1024) uint8_t shared[];                                                     \
        run<Weight, kNarrowCache>(p, shared);                                                                   \
    }

MEGAKERNEL(megakernel, PlainWeight, false)
MEGAKERNEL(megakernel_kv8, PlainWeight, true)
MEGAKERNEL(megakernel_bf12, Bf12Weight, false)
MEGAKERNEL(megakernel_bf12_kv8, Bf12Weight, true)
MEGAKERNEL(megakernel_w8, NarrowWeight, false)
MEGAKERNEL(megakernel_w8_kv8, NarrowWeight, true)
