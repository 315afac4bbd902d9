//! Attention: kernels for sequences with few new tokens (one where the copy engine reads keys and values, one for any
//! shape), and one for those with many, of Hopper's instructions or of others.

mod ampere;
mod plan;
mod split;
mod stream;
mod tiles;
mod widen;

use std::sync::Arc;

use ops::{Attend, DeviceError, OpError};
use tensor::{Buffer, DType};

use crate::card::Generation;
use crate::context::Context;
use crate::device::CudaDevice;
use crate::memory::allocate;
use crate::module::Modules;

use ampere::AmpereTiles;
use split::Splits;
use stream::Streams;
use tiles::{Source, Tiles};
use widen::Widened;

pub(crate) use super::rope::FreshParams;
pub(crate) use plan::PlanParams;

#[derive(Clone, Copy, Default)]
#[repr(C)]
struct AttendParams {
    query: u64,
    keys: u64,
    values: u64,
    starts: u64,
    lengths: u64,
    table_rows: u64,
    page_table: u64,
    sinks: u64,
    out: u64,
    partial_sums: u64,
    partial_scales: u64,
    arrivals: u64,
    homes: u64,
    query_stride: u32,
    out_stride: u32,
    table_stride: u32,
    rows: u32,
    page_size: u32,
    page_shift: u32,
    query_heads: u32,
    kv_heads: u32,
    group: u32,
    head_dim: u32,
    window: u32,
    few: u32,
    workers: u32,
    most_chunks: u32,
    scale: f32,
    soft_cap: f32,
}

/// Sizes that heads are rounded up to.
const DIMS: [usize; 3] = [64, 128, 256];
/// N of the MMAs, one column for each query head of a group and new token.
const COLUMNS: [usize; 2] = [8, 16];
/// Positions of a unit of work, and units that come in even chunks.
const UNIT: usize = 128;
const EVEN: usize = 16;
/// Bytes for results of chunks.
const PARTIALS: usize = 64 << 20;
/// Key heads times workers.
const MOST_SHARES: usize = 1 << 14;

/// Chunks of a sequence of `positions` positions; kernels/attend/chunks.cuh has the same rule.
fn chunks(positions: usize) -> usize {
    let units = positions.div_ceil(UNIT).max(1);
    if units <= EVEN {
        return units;
    }
    let last = units - 1;
    let octave = (last / EVEN).ilog2() as usize;
    EVEN + 8 * octave + ((last >> (octave + 1)) & 7) + 1
}

/// The kernels of attention and the memory they share.
pub(crate) struct Attention {
    splits: Splits,
    streams: Option<Streams>,
    many: Many,
    /// Where keys and values of one byte are the type that a server keeps.
    widened: Option<Widened>,
    partials: Buffer,
    arrivals: Buffer,
    units: usize,
}

/// The kernels for sequences with many new tokens.
enum Many {
    Hopper(Tiles),
    Ampere(AmpereTiles),
}

impl Many {
    fn take(&self, op: &Attend<'_>) -> bool {
        match self {
            Self::Hopper(_) => tiles::take(op),
            Self::Ampere(_) => ampere::take(op),
        }
    }
}

impl Attention {
    pub(crate) fn new(
        context: &Arc<Context>,
        modules: &Modules,
        units: usize,
        kv: DType,
    ) -> Result<Self, DeviceError> {
        let (streams, many) = match modules.generation() {
            Generation::Hopper => {
                let streams = Streams::new(context, modules, units)?;
                (Some(streams), Many::Hopper(Tiles::new(context, modules)?))
            }
            Generation::Ampere => (None, Many::Ampere(AmpereTiles::find(modules)?)),
        };
        let narrow = kv == DType::F8E4M3;
        Ok(Self {
            splits: Splits::find(context, modules)?,
            streams,
            many,
            widened: narrow.then(|| Widened::new(context, modules)).transpose()?,
            partials: allocate(context, PARTIALS, "attention's partial results")?,
            arrivals: allocate(context, MOST_SHARES * 4, "attention's arrivals")?,
            units,
        })
    }

    /// The size of the widest heads that there are kernels for.
    pub(crate) fn widest(&self) -> usize {
        self.splits.widest()
    }

    /// What the launchers derive from an op.
    fn shape(&self, op: &Attend<'_>) -> Shape {
        let group = op.heads.group();
        let dim_index = dim_index(op);
        let narrow = op.cache.dtype() == DType::F8E4M3;
        let streams = self.streams.is_some() && stream::takes(op);
        let dim_index = if streams && narrow {
            dim_index.max(1)
        } else {
            dim_index
        };
        let column_index = usize::from(group > COLUMNS[0]);
        let few = if self.many.take(op) && (!narrow || self.widened.is_some()) {
            (COLUMNS[column_index] / group).max(1)
        } else {
            u32::MAX as usize
        };
        Shape {
            dim_index,
            dim: DIMS[dim_index],
            column_index,
            narrow,
            streams,
            few,
        }
    }
}

/// Index into [`DIMS`] of the size that takes the op's heads.
fn dim_index(op: &Attend<'_>) -> usize {
    let index = DIMS.iter().position(|&dim| dim >= op.heads.dim);
    index.unwrap_or_else(|| panic!("heads of {} elements are too wide", op.heads.dim))
}

/// What the kernels for few new tokens are chosen by.
struct Shape {
    /// Index into [`DIMS`] and the size there.
    dim_index: usize,
    dim: usize,
    column_index: usize,
    narrow: bool,
    /// Few new tokens go to the kernel that the copy engine feeds.
    streams: bool,
    /// Rows with more new tokens go to the tile kernel; none do when it cannot take them.
    few: usize,
}

/// True when heads, queries, results, keys and values are aligned for copies and 16-byte accesses.
fn copies_vectors(op: &Attend<'_>) -> bool {
    let even = |address: *const u8| (address as usize).is_multiple_of(16);
    matches!(op.cache.dtype(), DType::BF16 | DType::F8E4M3)
        && op.heads.dim.is_multiple_of(8)
        && op.query.stride().is_multiple_of(8)
        && op.out.stride().is_multiple_of(2)
        && (op.out.address() as usize).is_multiple_of(4)
        && even(op.query.address())
        && even(op.cache.keys().address())
        && even(op.cache.values().address())
}

/// log2 of the page size where sixteen positions never cross a page and heads are 16-byte aligned.
fn page_shift(op: &Attend<'_>) -> u32 {
    let size = op.batch.page_size;
    let bits = (op.heads.dim * op.cache.dtype().size())
        | op.cache.keys().address() as usize
        | op.cache.values().address() as usize;
    if size >= 16 && size.is_power_of_two() && bits.is_multiple_of(16) {
        size.ilog2()
    } else {
        0
    }
}

impl CudaDevice {
    pub(crate) fn launch_attend(&self, op: &Attend<'_>) -> Result<(), OpError> {
        let shape = self.attention.shape(op);
        if op.query.rows() == 0 {
            return Ok(());
        }
        let params = self.attend_params(op, &shape);
        let many = op.batch.max_query > shape.few;
        if !many {
            return Ok(self.launch_few(op, &shape, &params)?);
        }
        // When all rows have the most new tokens, none has few.
        let all_alike = op.query.rows() == op.batch.rows() * op.batch.max_query;
        let (mut few, mut source) = ((!all_alike).then_some(params), Source::cache(op, &params));
        if let (true, Some(widened)) = (shape.narrow, &self.attention.widened) {
            self.launch_widen(op, &params, widened)?;
            few = widened.left_over(op, &params).or(few);
            source = widened.source(op, &params);
        }
        if let Some(few) = few {
            self.launch_few(op, &shape, &few)?;
        }
        Ok(match &self.attention.many {
            Many::Hopper(tiles) => self.launch_tiles(op, &source, tiles),
            Many::Ampere(tiles) => self.launch_ampere_tiles(op, &source, tiles),
        }?)
    }

    /// Rows with few new tokens, and those that the tile kernel does not take.
    fn launch_few(
        &self,
        op: &Attend<'_>,
        shape: &Shape,
        params: &AttendParams,
    ) -> Result<(), DeviceError> {
        match &self.attention.streams {
            Some(streams) if shape.streams => self.launch_stored(op, shape, params, streams),
            _ => self.launch_split(op, shape, params),
        }
    }

    fn attend_params(&self, op: &Attend<'_>, shape: &Shape) -> AttendParams {
        let columns = COLUMNS[shape.column_index];
        let most_chunks = chunks(op.batch.page_table.cols() * op.batch.page_size);
        let scales = most_chunks * columns * 2 * 4;
        let each = most_chunks * columns * shape.dim * 4 + scales;
        let each_unit = if shape.streams {
            let rows = op.batch.rows() * op.heads.kv;
            stream::blocks_each(shape, op.batch.page_size, rows, self.attention.units)
        } else {
            self.attention.splits.blocks_each(shape)
        };
        let blocks = self.attention.units * each_unit;
        let shares = blocks
            .min(PARTIALS / each)
            .min(MOST_SHARES)
            .max(op.heads.kv);
        let workers = even_workers(shares / op.heads.kv, op.batch.rows());
        let partial_sums = self.attention.partials.address() as u64;
        AttendParams {
            query: op.query.address() as u64,
            keys: op.cache.keys().address() as u64,
            values: op.cache.values().address() as u64,
            starts: op.batch.starts.address() as u64,
            lengths: op.batch.lengths.address() as u64,
            table_rows: op.batch.table_rows.address() as u64,
            page_table: op.batch.page_table.address() as u64,
            sinks: op.sinks.map_or(0, |sinks| sinks.address() as u64),
            out: op.out.address() as u64,
            partial_sums,
            partial_scales: partial_sums + (workers * op.heads.kv * (each - scales)) as u64,
            arrivals: self.attention.arrivals.address() as u64,
            homes: 0,
            query_stride: op.query.stride() as u32,
            out_stride: op.out.stride() as u32,
            table_stride: op.batch.page_table.stride() as u32,
            rows: op.batch.rows() as u32,
            page_size: op.batch.page_size as u32,
            page_shift: page_shift(op),
            query_heads: op.heads.query as u32,
            kv_heads: op.heads.kv as u32,
            group: op.heads.group() as u32,
            head_dim: op.heads.dim as u32,
            window: op.window.map_or(u32::MAX, |window| window as u32),
            few: shape.few as u32,
            workers: workers as u32,
            most_chunks: most_chunks as u32,
            scale: op.scale,
            soft_cap: op.soft_cap.unwrap_or(0.0),
        }
    }
}

/// Workers for these rows, at most `most`: a little fewer when rows of one length then need not be cut, or are cut evenly.
fn even_workers(most: usize, rows: usize) -> usize {
    let fewest = most - most / 8;
    let even = |&workers: &usize| {
        rows > 0 && (rows.is_multiple_of(workers) || workers.is_multiple_of(rows))
    };
    (fewest.max(1)..=most).rev().find(even).unwrap_or(most)
}

fn common_divisor(a: usize, b: usize) -> usize {
    if b == 0 { a } else { common_divisor(b, a % b) }
}

#[cfg(test)]
mod tests {
    use super::{chunks, even_workers};

    #[test]
    fn rows_of_one_length_are_cut_evenly_where_few_workers_are_lost() {
        for (most, rows, expected) in [
            (33, 1, 33),
            (33, 2, 32),
            (33, 16, 32),
            (33, 64, 32),
            (132, 64, 128),
            (33, 48, 33),
            (1, 3, 1),
            (33, 0, 33),
        ] {
            assert_eq!(even_workers(most, rows), expected, "{most} for {rows}");
        }
    }

    #[test]
    fn the_number_of_chunks_grows_with_the_logarithm_of_long_sequences() {
        for (positions, expected) in [
            (0, 1),
            (1, 1),
            (128, 1),
            (129, 2),
            (2048, 16),
            (2049, 17),
            (2304, 17),
            (2305, 18),
            (4096, 24),
            (4097, 25),
            (131_072, 64),
        ] {
            assert_eq!(chunks(positions), expected, "{positions} positions");
        }
    }
}
