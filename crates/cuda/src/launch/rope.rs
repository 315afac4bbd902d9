use ops::{HeadNorm, OpError, Rope, RopeStoreKv, StoreKv};
use tensor::DType;

use super::{Grid, are_aligned, launch};
use crate::device::CudaDevice;

/// `FreshParams` of the kernels: new tokens as they left the projection.
#[derive(Clone, Copy, Default)]
#[repr(C)]
pub(crate) struct FreshParams {
    pub(crate) key: u64,
    pub(crate) value: u64,
    query_norm: u64,
    key_norm: u64,
    positions: u64,
    table: u64,
    slots: u64,
    query_eps: f32,
    key_eps: f32,
    pub(crate) key_stride: u32,
    pub(crate) value_stride: u32,
    wide_norms: u32,
}

#[derive(Clone, Copy, Default)]
#[repr(C)]
struct RopeParams {
    fresh: FreshParams,
    query: u64,
    keys: u64,
    values: u64,
    query_stride: u32,
    tokens: u32,
    query_heads: u32,
    kv_heads: u32,
    head_dim: u32,
    rotated: u32,
    fp8: u32,
    even: u32,
    turns: u32,
}

/// Warps in a block.
const WARPS: usize = 8;
/// Tokens from which on a warp that takes whole vectors does so four times.
const MANY: u32 = 512;
/// Elements that a warp takes at once.
const AT_ONCE: u32 = 512;
/// Elements of the widest head.
pub(super) const WIDEST: usize = 256;

/// Elements of a head that a warp takes in whole vectors.
fn is_even(head_dim: u32) -> bool {
    matches!(head_dim, 64 | 128 | 256)
}

/// The weight of a head's norm, zero where there is none, and its eps.
fn norm_params(norm: Option<HeadNorm<'_>>) -> (u64, f32) {
    norm.map_or((0, 0.0), |norm| (norm.weight.address() as u64, norm.eps))
}

/// True when the weight is of four-byte floats, or absent.
fn is_wide(norm: Option<HeadNorm<'_>>) -> bool {
    norm.is_none_or(|norm| norm.weight.dtype() == DType::F32)
}

impl From<&RopeStoreKv<'_>> for FreshParams {
    fn from(op: &RopeStoreKv<'_>) -> Self {
        let (query_norm, query_eps) = norm_params(op.query_norm);
        let (key_norm, key_eps) = norm_params(op.key_norm);
        Self {
            key: op.key.address() as u64,
            value: op.value.address() as u64,
            query_norm,
            key_norm,
            positions: op.positions.address() as u64,
            table: op.table.address() as u64,
            slots: op.slots.address() as u64,
            query_eps,
            key_eps,
            key_stride: op.key.stride() as u32,
            value_stride: op.value.stride() as u32,
            wide_norms: u32::from(is_wide(op.query_norm)),
        }
    }
}

impl FreshParams {
    /// None when a warp does not hold their heads whole.
    pub(crate) fn of(rope: &RopeStoreKv<'_>) -> Option<Self> {
        let matrices = [
            (rope.key.address() as u64, rope.key.stride()),
            (rope.value.address() as u64, rope.value.stride()),
            (rope.table.address() as u64, 0),
        ];
        let fits = is_even(rope.heads.dim as u32)
            && rope.table.cols() == rope.heads.dim
            && are_aligned(8, &matrices)
            && is_wide(rope.query_norm) == is_wide(rope.key_norm);
        fits.then(|| Self::from(rope))
    }
}

impl CudaDevice {
    pub(crate) fn launch_rope_store_kv(&self, op: &RopeStoreKv<'_>) -> Result<(), OpError> {
        assert_eq!(
            is_wide(op.query_norm),
            is_wide(op.key_norm),
            "norms of one type"
        );
        self.launch_heads(RopeParams {
            fresh: FreshParams::from(op),
            query: op.query.address() as u64,
            keys: op.cache.keys().address() as u64,
            values: op.cache.values().address() as u64,
            query_stride: op.query.stride() as u32,
            tokens: op.query.rows() as u32,
            query_heads: op.heads.query as u32,
            kv_heads: op.heads.kv as u32,
            head_dim: op.heads.dim as u32,
            rotated: op.table.cols() as u32,
            fp8: u32::from(op.cache.dtype() == DType::F8E4M3),
            ..RopeParams::default()
        })
    }

    pub(crate) fn launch_rope(&self, op: &Rope<'_>) -> Result<(), OpError> {
        let (query_norm, query_eps) = norm_params(op.norm);
        self.launch_heads(RopeParams {
            fresh: FreshParams {
                query_norm,
                positions: op.positions.address() as u64,
                table: op.table.address() as u64,
                query_eps,
                wide_norms: u32::from(is_wide(op.norm)),
                ..FreshParams::default()
            },
            query: op.x.address() as u64,
            query_stride: op.x.stride() as u32,
            tokens: op.x.rows() as u32,
            query_heads: (op.x.cols() / op.head_dim) as u32,
            head_dim: op.head_dim as u32,
            rotated: op.table.cols() as u32,
            ..RopeParams::default()
        })
    }

    /// The heads' borders do not matter when nothing is rotated: the row is stored as one wide head after the other.
    pub(crate) fn launch_store_kv(&self, op: &StoreKv<'_>) -> Result<(), OpError> {
        let width = op.key.cols();
        let head_dim = (1..=WIDEST)
            .rev()
            .find(|&dim| width.is_multiple_of(dim))
            .unwrap_or(1);
        self.launch_heads(RopeParams {
            fresh: FreshParams {
                key: op.key.address() as u64,
                value: op.value.address() as u64,
                slots: op.slots.address() as u64,
                key_stride: op.key.stride() as u32,
                value_stride: op.value.stride() as u32,
                ..FreshParams::default()
            },
            keys: op.cache.keys().address() as u64,
            values: op.cache.values().address() as u64,
            tokens: op.key.rows() as u32,
            kv_heads: (width / head_dim) as u32,
            head_dim: head_dim as u32,
            fp8: u32::from(op.cache.dtype() == DType::F8E4M3),
            ..RopeParams::default()
        })
    }

    fn launch_heads(&self, mut params: RopeParams) -> Result<(), OpError> {
        let whole = params.rotated == params.head_dim || params.rotated == 0;
        let fresh = &params.fresh;
        let matrices = [
            (params.query, params.query_stride as usize),
            (fresh.key, fresh.key_stride as usize),
            (fresh.value, fresh.value_stride as usize),
            (params.keys, 0),
            (params.values, 0),
            (fresh.table, 0),
            (fresh.query_norm, 0),
            (fresh.key_norm, 0),
        ];
        let even = is_even(params.head_dim) && whole && are_aligned(8, &matrices);
        params.even = u32::from(even);
        params.turns = if even && params.tokens >= MANY { 4 } else { 1 };
        let heads = params.query_heads + 2 * params.kv_heads;
        let each = if even {
            params.turns * AT_ONCE / params.head_dim
        } else {
            1
        };
        let warps = (params.tokens * heads.div_ceil(each)) as usize;
        let grid = Grid::line(warps.div_ceil(WARPS), WARPS * 32);
        // SAFETY: the struct of the kernel; addresses and strides come from checked views.
        Ok(unsafe { launch(&self.context, self.functions.rope_store_kv, grid, &params) }?)
    }
}
