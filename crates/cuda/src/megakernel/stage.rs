//! One op of the megakernel, as the kernel reads it.

use ops::DeviceError;
use tensor::View;

use super::variety::{Elements, Variety};
use super::weight::{GROUP, StageWeight, tile};
use crate::launch::attend::FreshParams;
use crate::linear::{Epilogue, EpilogueParams, Gemm, Scales, StageOutput};
use crate::lower::{DeferredScale, RopeAttend};
use crate::tensor_map::{TensorMap, TiledMatrix};

/// Bytes between rows of x in shared memory.
const ROW_GAP: usize = 16;
/// Elements of a head, and the most query heads of a KV head.
pub(super) const HEAD: usize = 128;
pub(super) const MOST_HEADS: usize = 8;
/// Floats from one head of partial sums to the next.
const HEAD_STRIDE: usize = HEAD + 4;
/// Positions of a KV tile.
const TILE_POSITIONS: usize = 32;
/// KV splits of all sequences and KV heads, at most; no fewer than one per sequence and head.
pub(super) const PARTS: usize = 128;
/// Results that one stage can send to the next.
pub(super) const MAX_SENT: usize = 1 << 16;
/// Computing warps.
const WARPS: usize = 8;

/// `AttendStage` of the kernel.
#[derive(Clone, Copy)]
#[repr(C)]
struct AttendStage {
    fresh: FreshParams,
    query: u64,
    keys: u64,
    values: u64,
    starts: u64,
    lengths: u64,
    table_rows: u64,
    page_table: u64,
    out: u64,
    part_sums: u64,
    part_scales: u64,
    query_stride: u32,
    out_stride: u32,
    table_stride: u32,
    rows: u32,
    page_size: u32,
    kv_heads: u32,
    group: u32,
    most_parts: u32,
    run_shift: u32,
    element: u32,
    scale: f32,
}

/// `LinearStage` of the kernel.
#[derive(Clone, Copy)]
#[repr(C)]
struct LinearStage {
    epilogue: EpilogueParams,
    scales: Scales,
    outliers: u64,
}

impl LinearStage {
    fn elements(&self) -> Elements {
        if self.outliers != 0 {
            Elements::Bf12
        } else if self.scales.are_none() {
            Elements::Bf16
        } else {
            Elements::E4m3
        }
    }
}

const _: () = assert!(
    size_of::<LinearStage>() == 128 && size_of::<AttendStage>() == 208 && size_of::<Stage>() == 512,
    "as kernels/megakernel/tile.cuh has them"
);

#[derive(Clone, Copy)]
#[repr(C)]
union Details {
    linear: LinearStage,
    attend: AttendStage,
}

/// `Stage` of the kernel.
#[derive(Clone, Copy)]
#[repr(C, align(128))]
pub(crate) struct Stage {
    /// Of a GEMM, the weight and, of bf12, its headers; of attention, keys and values.
    maps: [TensorMap; 2],
    kind: u32,
    groups: u32,
    tiles: u32,
    inputs: u32,
    x: u64,
    x_stride: u32,
    details: Details,
}

/// `StageKind` of attention; GEMMs have the number of their epilogue.
const ATTEND: u32 = 3;
/// `StageKind` of a gated GEMM.
const GATED: u32 = 1;

/// Where KV splits exchange partial results.
#[derive(Clone, Copy)]
pub(super) struct Parts {
    pub(super) sums: u64,
    pub(super) scales: u64,
}

impl Stage {
    /// The GEMM of one or two rows with a weight.
    pub(super) fn gemm(
        gemm: &Gemm<'_>,
        weight: &StageWeight,
        norm: Option<DeferredScale<'_>>,
        epilogue: &Epilogue<'_>,
    ) -> Result<Self, DeviceError> {
        let inputs = gemm.x.cols();
        let outputs = epilogue.outputs(gemm);
        let tiles = inputs.div_ceil(weight.tile());
        let linear = LinearStage {
            epilogue: EpilogueParams::new(gemm, (outputs, tiles), norm, epilogue),
            scales: weight.scales(),
            outliers: weight.outliers(),
        };
        Ok(Self {
            maps: weight.maps(outputs, epilogue.is_gated())?,
            kind: epilogue.number() as u32,
            groups: outputs.div_ceil(GROUP) as u32,
            tiles: tiles as u32,
            inputs: inputs as u32,
            x: gemm.x.address() as u64,
            x_stride: gemm.x.stride() as u32,
            details: Details { linear },
        })
    }

    /// Decode attention: one new token per sequence.
    pub(super) fn attend(
        op: &RopeAttend<'_>,
        fresh: FreshParams,
        parts: Parts,
    ) -> Result<Self, DeviceError> {
        let (rope, batch) = (&op.rope, &op.batch);
        let attend = AttendStage {
            fresh,
            query: rope.query.address() as u64,
            keys: rope.cache.keys().address() as u64,
            values: rope.cache.values().address() as u64,
            starts: batch.starts.address() as u64,
            lengths: batch.lengths.address() as u64,
            table_rows: batch.table_rows.address() as u64,
            page_table: batch.page_table.address() as u64,
            out: op.out.address() as u64,
            part_sums: parts.sums,
            part_scales: parts.scales,
            query_stride: rope.query.stride() as u32,
            out_stride: op.out.stride() as u32,
            table_stride: batch.page_table.stride() as u32,
            rows: batch.rows() as u32,
            page_size: batch.page_size as u32,
            kv_heads: rope.heads.kv as u32,
            group: rope.heads.group() as u32,
            most_parts: (PARTS / (rope.heads.kv * batch.rows())).max(1) as u32,
            run_shift: run(batch.page_size).ilog2(),
            element: rope.cache.dtype().size() as u32,
            scale: op.scale,
        };
        Ok(Self {
            maps: [
                cache_map(op, rope.cache.keys())?,
                cache_map(op, rope.cache.values())?,
            ],
            kind: ATTEND,
            groups: rope.heads.kv as u32,
            tiles: 0,
            inputs: 0,
            x: 0,
            x_stride: 0,
            details: Details { attend },
        })
    }

    /// True when it reads exactly what `previous` writes, so that messages can carry it.
    pub(super) fn follows(&self, previous: &Self) -> bool {
        let Some(output) = previous.output() else {
            return false;
        };
        let inputs = self.inputs as usize;
        // SAFETY: the kind says which of the two was set.
        unsafe {
            if self.kind != ATTEND {
                let linear = &self.details.linear.epilogue;
                let squares = (previous.squares(), previous.groups as usize);
                return output.is((self.x, self.x_stride, inputs, linear.rows()))
                    && (linear.squares().0 == 0 || linear.squares() == squares);
            }
            let attend = &self.details.attend;
            let kv = attend.kv_heads as usize * HEAD;
            let queries = kv * attend.group as usize;
            let one_stride = attend.rows == 1
                || attend.fresh.key_stride == attend.query_stride
                    && attend.fresh.value_stride == attend.query_stride;
            let all = queries + 2 * kv;
            output.is((attend.query, attend.query_stride, all, attend.rows as usize))
                && attend.fresh.key == attend.query + 2 * queries as u64
                && attend.fresh.value == attend.fresh.key + 2 * kv as u64
                && one_stride
        }
    }

    /// The matrix that messages can carry.
    fn output(&self) -> Option<StageOutput> {
        // SAFETY: the kind says which of the two was set.
        let output = unsafe {
            if self.kind == ATTEND {
                let attend = &self.details.attend;
                let heads = (attend.kv_heads * attend.group) as usize;
                StageOutput {
                    address: attend.out,
                    stride: attend.out_stride,
                    results: heads * HEAD,
                    rows: attend.rows as usize,
                }
            } else {
                self.details.linear.epilogue.output(self.kind == GATED)?
            }
        };
        (output.results <= MAX_SENT && output.results.is_multiple_of(2)).then_some(output)
    }

    /// Where its sums of squares go, if it has any.
    fn squares(&self) -> u64 {
        if self.kind == ATTEND {
            return 0;
        }
        // SAFETY: the kind says that this one was set.
        unsafe { self.details.linear.epilogue.next_squares() }
    }

    /// Shared memory beside the ring that it needs.
    pub(super) fn room(&self) -> usize {
        // SAFETY: the kind says which of the two was set.
        unsafe {
            if self.kind == ATTEND {
                attend_room(self.details.attend.group as usize)
            } else {
                let linear = &self.details.linear;
                let tile = tile(linear.elements());
                rows_room(linear.epilogue.rows(), self.inputs as usize, tile)
            }
        }
    }

    /// Which kernels run it.
    pub(super) fn variety(&self) -> Variety {
        // SAFETY: the kind says which of the two was set.
        unsafe {
            if self.kind == ATTEND {
                Variety {
                    cache: Some(self.details.attend.element == 1),
                    ..Variety::default()
                }
            } else {
                Variety {
                    weights: Some(self.details.linear.elements()),
                    ..Variety::default()
                }
            }
        }
    }
}

/// Shared memory for the partial sums of a group of heads.
fn attend_room(group: usize) -> usize {
    WARPS * (group * HEAD_STRIDE * 4 + MOST_HEADS * 8)
}

/// Shared memory for rows of x, padded to whole tiles.
pub(super) fn rows_room(rows: usize, inputs: usize, tile: usize) -> usize {
    rows * (inputs.next_multiple_of(tile) * 2 + ROW_GAP)
}

/// Positions that one copy brings: a copy never crosses a page.
pub(super) fn run(page_size: usize) -> usize {
    1 << page_size.trailing_zeros().min(TILE_POSITIONS.ilog2())
}

/// TMA tiles of one head of consecutive positions, in words of two bytes; a head of more than 128 bytes has its halves one
/// after the other.
fn cache_map(op: &RopeAttend<'_>, cache: View<'_>) -> Result<TensorMap, DeviceError> {
    let (heads, slice, element) = (op.rope.heads, TensorMap::SLICE, cache.dtype().size());
    let head = (element * HEAD) as u64;
    let slices = head / (2 * u64::from(slice));
    TensorMap::new(&TiledMatrix {
        address: cache.address() as u64,
        sizes: &[
            u64::from(slice),
            heads.kv as u64,
            cache.rows() as u64,
            slices,
        ],
        strides: &[
            head,
            (element * heads.kv_width()) as u64,
            2 * u64::from(slice),
        ],
        shape: &[slice, 1, run(op.batch.page_size) as u32, slices as u32],
    })
}
