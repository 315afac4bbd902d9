// Prefill attention on GPUs without Hopper's instructions: as `attend_tiles`, by warp-level MMA and cp.async, which all GPUs from
// Ampere on have. A block has one tile.
#include "attend/ampere_tile.cuh"

template <int kDim>
__device__ void attend_ampere(const AmpereTilesParams& p) {
    extern __shared__ __align__(128) uint8_t shared[];
    launch_and_wait_on_dependent_grids();
    const AmpereTile tile = AmpereTile::of(p, blockIdx.x);
    if (tile.tokens == 0) return;
    AmpereRows<kDim> rows(p, tile);
    rows.attend(shared);
    rows.write();
}

#define ATTEND_AMPERE(dim)                                                                                      \
    extern "C" __global__ void __launch_bounds__(kTileThreads, 1) attend_ampere_##dim(const __grid_constant__ \
                                                                                     AmpereTilesParams p) {    \
        attend_ampere<dim>(p);                                                                                 \
    }

ATTEND_AMPERE(64)
ATTEND_AMPERE(128)
