// A chain of products and attention of few rows in one kernel. Weights, keys and values are fetched as far ahead as there is
// room, over the borders of ops; what an op finds goes to the next one by mail, so that blocks never wait for each other's
// end.
#include "chain/attend.cuh"
#include "chain/clerk.cuh"
#include "chain/fetch.cuh"
#include "chain/folded.cuh"
#include "chain/product.cuh"
#include "common/registers.cuh"

// Those that compute, and a warpgroup of which one warp fetches and one is the clerk.
constexpr int kThreads = kComputing + 128;
// Registers of a thread at first, of those that compute, and of the others: the same in all.
constexpr int kEven = 168, kMany = 216, kFew = 3 * kEven - 2 * kMany;
// Bytes behind the ring and the rows of x, as chain/mod.rs counts them.
constexpr int kRestRoom = 9216;

struct Rest {
    // The link that is under way and the one after it.
    ChainLink links[2];
    union {
        ProductShared product;
        AttendShared attend;
    };
    KnownPart known;
    float factors[2][kMostRows];
    Barrier found[2];
    Barrier full[kMostStages];
    Barrier empty[kMostStages];
};
static_assert(sizeof(Rest) <= kRestRoom, "fits");

// Pieces of a link, one for each of the first threads.
constexpr int kPieces = sizeof(ChainLink) / 16;

__device__ __forceinline__ void learn(ChainLink* to, const ChainLink* from) {
    if (threadIdx.x < kPieces) {
        reinterpret_cast<uint4*>(to)[threadIdx.x] = reinterpret_cast<const uint4*>(from)[threadIdx.x];
    }
    __syncwarp();
}

// A link in device memory, which is there when copies have been waited for.
__device__ __forceinline__ void send_for(ChainLink* to, const ChainLink* from) {
    if (threadIdx.x < kPieces) copy16(shared_address(to) + threadIdx.x * 16, reinterpret_cast<const uint4*>(from) + threadIdx.x);
    commit_copies();
}

template <class Weight, bool kNarrowCache>
__device__ __forceinline__ void compute(const ChainParams& p, const ChainLink* links, uint32_t age, const ChainRing& ring,
                                        uint8_t* x, Rest* rest) {
    ChainRing::Place place{0, 0};
    const uint32_t warp = warp_number();
    uint32_t norms = 0;
    const uint32_t inverse = GroupShare::inverse();
    learn(&rest->links[0], links);
#pragma unroll 1
    for (uint32_t i = 0; i < p.count; ++i) {
        wait_copies<0>();
        // Everyone is done with the link before.
        meet(1, kComputing);
        if (i + 1 < p.count) send_for(&rest->links[(i + 1) % 2], links + i + 1);
        const ChainLink& link = rest->links[i % 2];
        const ChainMail mail(p, i, age);
        if (link.kind == LinkKind::kAttend) {
            ChainAttention<kNarrowCache>(link.attend, ring, mail, &rest->attend, &rest->known, x).run(place);
            continue;
        }
        LateFactors factors{&rest->found[norms % 2], rest->factors[norms % 2], norms / 2 % 2};
        const GroupShare share(link.groups, inverse);
        if (ChainClerk::has_factors(link, share)) ++norms;
        ChainProduct<Weight>(link, ring, mail, x, &rest->product, &factors, share, warp).run(place);
    }
}

// The last block to end leaves everything ready for the next chain.
__device__ __forceinline__ void end(const ChainParams& p, uint32_t age) {
    meet(1, kComputing);
    if (threadIdx.x == 0 && atomicAdd(&p.progress->done, 1) + 1 == gridDim.x) {
        p.progress->age = age + p.count;
        p.progress->done = 0;
    }
}

template <class Weight, bool kNarrowCache>
__device__ __forceinline__ void run(const ChainParams& p, uint8_t* shared) {
    uint8_t* x = shared + p.ring * kStageBytes;
    Rest* rest = reinterpret_cast<Rest*>(x + p.x_room);
    const ChainLink* links = p.links ? p.links : &p.only;
    const ChainRing ring{shared, rest->full, rest->empty, p.ring};
    if (threadIdx.x == 0) {
#pragma unroll 1
        for (uint32_t i = 0; i < p.ring; ++i) {
            ring.full[i].init(1);
            ring.empty[i].init(kWarps);
        }
        for (Barrier& found : rest->found) found.init(1);
        rest->known.page_table = nullptr;
        publish_barriers();
    }
    __syncthreads();
    const uint32_t warp = warp_number();
    if (warp >= kWarps) give_up_registers<kFew>();
    if (warp == kWarps) {
        ChainFetch<Weight>(links, ring, GroupShare::inverse()).run(p.count);
        let_successor_begin();
        wait_for_predecessor();
        return;
    }
    wait_for_predecessor();
    const uint32_t age = __ldcg(&p.progress->age);
    if (warp == kWarps + 1) {
        ChainClerk{rest->found, rest->factors, GroupShare::inverse()}.run(p, links, age);
        return;
    }
    if (warp > kWarps) return;
    take_registers<kMany>();
    compute<Weight, kNarrowCache>(p, links, age, ring, x, rest);
    end(p, age);
}

// Weights of a chain are all of bf16, or all of eight-bit floats, or all folded, and keys and values are of bf16 or of
// eight-bit floats: a kernel for several would not have the registers to hold weights in.
#define CHAIN(name, Weight, kNarrowCache)                                                                       \
    extern "C" __global__ void __launch_bounds__(kThreads, 1) name(const __grid_constant__ ChainParams p) {     \
        extern __shared__ __align__(1024) uint8_t shared[];                                                     \
        run<Weight, kNarrowCache>(p, shared);                                                                   \
    }

CHAIN(chain, PlainWeight, false)
CHAIN(chain_kv8, PlainWeight, true)
CHAIN(chain_folded, FoldedWeight, false)
CHAIN(chain_folded_kv8, FoldedWeight, true)
CHAIN(chain_w8, NarrowWeight, false)
CHAIN(chain_w8_kv8, NarrowWeight, true)
