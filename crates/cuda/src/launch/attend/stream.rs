//! Sequences with few new tokens whose keys and values the copy engine can read; new tokens may come unrotated.

use std::sync::Arc;

use ops::{Attend, DeviceError, HeadNorm, Kernels as _, OpError, RopeStoreKv};

use super::super::rope::FreshParams;
use super::super::{Grid, HALF_ROOM, WHOLE_ROOM, launch};
use super::plan::Plans;
use super::{AttendParams, COLUMNS, DIMS, Shape, common_divisor, copies_vectors};
use crate::context::Context;
use crate::device::CudaDevice;
use crate::lower::RopeAttend;
use crate::module::{Function, Modules};
use crate::tensor_map::{TensorMap, TiledMatrix};

#[derive(Clone, Copy)]
#[repr(C, align(128))]
struct StreamParams {
    /// Tensor maps of keys and values: tiles of whole runs, and swizzle atoms.
    cached: [[TensorMap; 2]; 2],
    attend: AttendParams,
    fresh: FreshParams,
    plans: u64,
    run: u32,
    by_group: u32,
    by_heads: u32,
}

/// Positions of a unit, and of a buffer.
const UNIT: usize = 128;
const HALF: usize = UNIT / 2;
/// Positions of the smallest copy.
const ATOM_ROWS: usize = 8;
/// Warps that compute, and one that fetches.
const THREADS: usize = 288;
/// What the kernel multiplies with instead of dividing: so much by the divisor. It is right for numbers below this by the
/// divisor.
const ONE: usize = 1 << 31;
/// The size of heads that kernels for blocks alone are compiled for.
const ALONE_DIM: usize = 128;
/// The largest buffer of keys or values of which two blocks a multiprocessor have enough.
const HALF_BUFFER: usize = 16 << 10;

/// The kernels.
pub(super) struct Streams {
    /// By size of heads, columns, and whether keys and values are narrow.
    any: [[[Function; 2]; 2]; 3],
    /// By columns: for blocks that have a multiprocessor each, where others would have half of one.
    alone: [Function; 2],
    plans: Plans,
}

impl Streams {
    pub(super) fn new(
        context: &Arc<Context>,
        modules: &Modules,
        units: usize,
    ) -> Result<Self, DeviceError> {
        let find = |name: &str| modules.find_with_shared(name, WHOLE_ROOM);
        let one = |dim: usize, columns: usize, narrow: bool| {
            // Small heads of bytes take the room of larger ones.
            let dim = if narrow { dim.max(DIMS[1]) } else { dim };
            let kv = if narrow { "fp8" } else { "bf16" };
            find(&format!("attend_stream_{dim}_{columns}_{kv}"))
        };
        let both = |dim, columns| Ok([one(dim, columns, false)?, one(dim, columns, true)?]);
        let all = |dim| Ok([both(dim, COLUMNS[0])?, both(dim, COLUMNS[1])?]);
        let alone = |columns| find(&format!("attend_stream_{ALONE_DIM}_{columns}_bf16_alone"));
        Ok(Self {
            any: [all(DIMS[0])?, all(DIMS[1])?, all(DIMS[2])?],
            alone: [alone(COLUMNS[0])?, alone(COLUMNS[1])?],
            plans: Plans::new(context, modules, MOST_BLOCKS_EACH * units)?,
        })
    }

    /// That of a shape, whose blocks may have a multiprocessor each.
    fn of(&self, shape: &Shape, alone: bool) -> Function {
        if alone && shape.dim == ALONE_DIM && !shape.narrow {
            self.alone[shape.column_index]
        } else {
            self.any[shape.dim_index][shape.column_index][usize::from(shape.narrow)]
        }
    }
}

fn halves(dim: usize, narrow: bool) -> bool {
    HALF * dim * if narrow { 1 } else { 2 } <= HALF_BUFFER
}

/// The most blocks that a multiprocessor has room for.
const MOST_BLOCKS_EACH: usize = 2;

/// Blocks of a multiprocessor, for that many rows of one key head on that many multiprocessors. Where they are about as many,
/// no row need be cut, and one block each reads as fast as memory gives, by copies of whole buffers.
pub(super) fn blocks_each(shape: &Shape, page_size: usize, rows: usize, units: usize) -> usize {
    let whole = page_size.is_multiple_of(HALF) && !shape.narrow;
    let alone = whole && (units * 2 / 5..=units).contains(&rows);
    if halves(shape.dim, shape.narrow) && !alone {
        MOST_BLOCKS_EACH
    } else {
        1
    }
}

/// True when TMA can read keys and values, and queries and results are 16-byte aligned.
pub(super) fn takes(op: &Attend<'_>) -> bool {
    let kv = op.cache.dtype();
    copies_vectors(op)
        && (op.heads.dim * kv.size()).is_multiple_of(16)
        && op.batch.page_size.is_multiple_of(8)
        && op.query.rows() * op.heads.group().pow(2) < ONE
}

impl CudaDevice {
    /// One kernel where every sequence has one new token, else two; and the plan before the first layer.
    pub fn launch_rope_attend(&self, mut op: RopeAttend<'_>) -> Result<(), OpError> {
        op.check()?;
        if let Some(megakernel) = &self.megakernel
            && megakernel.attend(&self.context, &op)?
        {
            return Ok(());
        }
        let fresh = FreshParams::of(&op.rope);
        let attend = op.attend();
        let shape = self.attention.shape(&attend);
        let alone = attend.batch.max_query == 1 && attend.query.rows() == attend.batch.rows();
        let streams = self.attention.streams.as_ref();
        match streams.zip(fresh) {
            Some(found) if shape.streams && shape.dim == attend.heads.dim && alone => {
                let params = self.attend_params(&attend, &shape);
                Ok(self.launch_stream(&attend, &shape, &params, found)?)
            }
            _ => {
                let rope = &mut op.rope;
                self.rope_store_kv(RopeStoreKv {
                    query: rope.query.reborrow(),
                    key: rope.key.reborrow(),
                    value: rope.value,
                    heads: rope.heads,
                    query_norm: rope.query_norm.map(HeadNorm::shorter),
                    key_norm: rope.key_norm.map(HeadNorm::shorter),
                    positions: rope.positions,
                    table: rope.table,
                    slots: rope.slots,
                    cache: rope.cache,
                })?;
                self.attend(op.attend())
            }
        }
    }

    /// Tokens whose queries are rotated and whose keys and values are stored.
    pub(super) fn launch_stored(
        &self,
        op: &Attend<'_>,
        shape: &Shape,
        params: &AttendParams,
        streams: &Streams,
    ) -> Result<(), DeviceError> {
        self.launch_stream(op, shape, params, (streams, FreshParams::default()))
    }

    fn launch_stream(
        &self,
        op: &Attend<'_>,
        shape: &Shape,
        params: &AttendParams,
        (streams, fresh): (&Streams, FreshParams),
    ) -> Result<(), DeviceError> {
        let (heads, bytes) = (op.heads, op.cache.dtype().size());
        let run = common_divisor(op.batch.page_size, HALF);
        // Bytes are copied by twos.
        let cached = |address: u64, positions: usize| {
            TensorMap::new(&TiledMatrix {
                address,
                sizes: &[
                    (heads.dim * bytes / 2) as u64,
                    heads.kv as u64,
                    op.cache.slots() as u64,
                ],
                strides: &[
                    (heads.dim * bytes) as u64,
                    (heads.kv_width() * bytes) as u64,
                ],
                shape: &[TensorMap::SLICE, 1, positions as u32],
            })
        };
        let both = |positions| {
            let [keys, values] = [params.keys, params.values];
            Ok::<_, DeviceError>([cached(keys, positions)?, cached(values, positions)?])
        };
        let stream = StreamParams {
            cached: [both(run)?, both(ATOM_ROWS)?],
            attend: *params,
            fresh,
            plans: streams
                .plans
                .prepare(&self.context, params, shape.column_index, run)?,
            run: run as u32,
            by_group: ONE.div_ceil(heads.group()) as u32,
            by_heads: ONE.div_ceil(heads.kv) as u32,
        };
        let blocks = params.workers as usize * heads.kv;
        // Blocks that all run at once do not share a multiprocessor while another has none.
        let spread = blocks <= self.attention.units || !halves(shape.dim, shape.narrow);
        let grid = Grid {
            blocks: (blocks, 1, 1),
            threads: THREADS,
            shared: if spread { WHOLE_ROOM } else { HALF_ROOM },
        };
        let function = streams.of(shape, spread);
        // SAFETY: the struct of the kernel; addresses and strides come from checked views.
        unsafe { launch(&self.context, function, grid, &stream) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn multiprocessors_have_one_block_each_where_rows_are_about_as_many() {
        let shape = |dim, narrow| Shape {
            dim_index: 0,
            dim,
            column_index: 0,
            narrow,
            streams: true,
            few: 1,
        };
        for (dim, narrow, page_size, rows, expected) in [
            (128, false, 64, 32, 2),
            (128, false, 64, 64, 1),
            (128, false, 64, 132, 1),
            (128, false, 64, 133, 2),
            (128, false, 16, 128, 2),
            (128, true, 64, 128, 2),
            (256, false, 16, 512, 1),
        ] {
            let found = blocks_each(&shape(dim, narrow), page_size, rows, 132);
            assert_eq!(
                found, expected,
                "{rows} rows of {dim}, narrow: {narrow}, pages of {page_size}"
            );
        }
    }
}
