//! The decode megakernel: ops of one or two rows in one kernel, each op a stage of it.
//!
//! While a graph is captured, consecutive ops become the stages of one launch; otherwise each op is a launch of its own. Both
//! give the same bits.

mod recording;
mod stage;
mod variety;
mod weight;

use std::sync::Arc;

use ops::{DeviceError, Weight};
use tensor::{Buffer, DType};

use crate::context::Context;
use crate::launch::attend::FreshParams;
use crate::launch::{Grid, WHOLE_ROOM, are_aligned, launch};
use crate::linear::{Epilogue, Gemm};
use crate::lower::{DeferredScale, RopeAttend};
use crate::memory::allocate;
use crate::module::Modules;

use stage::{HEAD, MAX_SENT, MOST_HEADS, PARTS, Parts, rows_room, run};
use variety::{Varieties, Variety};
use weight::StageWeight;

pub(crate) use recording::Recording;
pub(crate) use stage::Stage;

/// The most rows that the megakernel takes.
pub(crate) const MOST_ROWS: usize = 2;
/// The most outputs of a GEMM, and blocks: with those the kernel finds a block's share without a division.
const MOST_OUTPUTS: usize = 1 << 20;
const MOST_BLOCKS: usize = 181;
/// The most bytes that rows of x may take from the ring's shared memory.
const MOST_ROWS_ROOM: usize = 100 << 10;
/// KV splits of all sequences; no fewer than KV heads.
const ALL_PARTS: usize = MOST_ROWS * PARTS;
/// Message buffers: of the stage that is read, of the one that is written, and one for slow readers.
const MESSAGE_BUFFERS: usize = 3;
/// Bytes of a message word.
const WORD: usize = 8;
/// The kernel's shared memory: bytes of a tile, the most tiles of the ring, and the rest.
const TILE_BYTES: usize = 16 << 10;
const MAX_TILES: usize = 16;
const REST_BYTES: usize = 9216;
const THREADS: usize = 384;
/// The fewest positions of a copy: a swizzle atom.
const FEWEST_AT_ONCE: usize = 8;

/// `MegakernelParams` of the kernel.
#[derive(Clone, Copy)]
#[repr(C, align(128))]
struct MegakernelParams {
    stages: u64,
    progress: u64,
    results: u64,
    squares: u64,
    count: u32,
    ring: u32,
    x_room: u32,
    only: Stage,
}

/// The kernel and what its blocks share.
pub(crate) struct Megakernel {
    kernels: Varieties,
    progress: Buffer,
    results: Buffer,
    squares: Buffer,
    parts: Buffer,
    blocks: usize,
}

impl Megakernel {
    pub(crate) fn new(
        context: &Arc<Context>,
        modules: &Modules,
        units: usize,
    ) -> Result<Self, DeviceError> {
        let room = |bytes| allocate(context, bytes, "the decode megakernel");
        Ok(Self {
            kernels: Varieties::new(modules)?,
            progress: room(8)?,
            results: room(MESSAGE_BUFFERS * MOST_ROWS * MAX_SENT / 2 * WORD)?,
            squares: room(MESSAGE_BUFFERS * MOST_ROWS * MAX_SENT / DeferredScale::PART * WORD)?,
            parts: room(ALL_PARTS * MOST_HEADS * (HEAD + 2) * WORD)?,
            blocks: units.min(MOST_BLOCKS),
        })
    }

    /// True when a GEMM of that many rows with the weight can be a stage.
    pub(crate) fn takes(rows: usize, weight: &Weight) -> bool {
        (1..=MOST_ROWS).contains(&rows)
            && weight.rows() <= MOST_OUTPUTS
            && StageWeight::of(weight, false)
                .is_some_and(|stage| rows_room(rows, weight.cols(), stage.tile()) <= MOST_ROWS_ROOM)
    }

    /// Enqueues a GEMM that the megakernel [takes](Self::takes), or adds it to the pending stages of the capture. Rows of x are
    /// 16-byte aligned; gates come in groups of eight. With `bf12` the weight's bf12 copy is read, where there is one.
    pub(crate) fn gemm(
        &self,
        context: &Context,
        gemm: &Gemm<'_>,
        (weight, bf12): (&Weight, bool),
        (norm, epilogue): (Option<DeferredScale<'_>>, &Epilogue<'_>),
    ) -> Result<(), DeviceError> {
        let weight = StageWeight::of(weight, bf12).expect("the megakernel takes it");
        self.add(context, &Stage::gemm(gemm, &weight, norm, epilogue)?)
    }

    /// The same of attention; false when it cannot be a stage.
    pub(crate) fn attend(
        &self,
        context: &Context,
        op: &RopeAttend<'_>,
    ) -> Result<bool, DeviceError> {
        let Some(fresh) = FreshParams::of(&op.rope).filter(|_| attends(op)) else {
            return Ok(false);
        };
        let sums = self.parts.address() as u64;
        let parts = Parts {
            sums,
            scales: sums + (ALL_PARTS * MOST_HEADS * HEAD * WORD) as u64,
        };
        self.add(context, &Stage::attend(op, fresh, parts)?)?;
        Ok(true)
    }

    fn add(&self, context: &Context, stage: &Stage) -> Result<(), DeviceError> {
        if !context.recording().continues_with(stage) {
            context.flush()?;
        }
        if context.recording().keep(stage) {
            return Ok(());
        }
        self.launch(context, 0, std::slice::from_ref(stage))
    }

    /// Enqueues stages that are in device memory at `address`, or a single one that is not.
    pub(crate) fn launch(
        &self,
        context: &Context,
        address: u64,
        stages: &[Stage],
    ) -> Result<(), DeviceError> {
        let room = stages.iter().map(Stage::room).max().unwrap_or(0);
        // Tiles of the ring must be aligned for TMA's swizzling.
        let room = room.next_multiple_of(1024);
        let ring = ((WHOLE_ROOM - REST_BYTES - room) / TILE_BYTES).min(MAX_TILES);
        let params = MegakernelParams {
            stages: address,
            progress: self.progress.address() as u64,
            results: self.results.address() as u64,
            squares: self.squares.address() as u64,
            count: stages.len() as u32,
            ring: ring as u32,
            x_room: room as u32,
            only: stages[0],
        };
        let grid = Grid {
            blocks: (self.blocks, 1, 1),
            threads: THREADS,
            shared: WHOLE_ROOM,
        };
        let variety = Variety::of(stages).expect("stages of a megakernel agree");
        let function = self.kernels.of(variety);
        // SAFETY: the struct of the kernel; addresses and strides come from checked views.
        unsafe { launch(context, function, grid, &params) }
    }
}

fn attends(op: &RopeAttend<'_>) -> bool {
    let (rope, batch) = (&op.rope, &op.batch);
    let heads = rope.heads;
    let matrices = [
        (rope.query.address() as u64, rope.query.stride()),
        (rope.cache.keys().address() as u64, 8),
        (rope.cache.values().address() as u64, 8),
    ];
    heads.dim == HEAD
        && heads.group() <= MOST_HEADS
        && heads.kv <= PARTS
        && batch.max_query == 1
        && run(batch.page_size) >= FEWEST_AT_ONCE
        && (1..=MOST_ROWS).contains(&batch.rows())
        && rope.query.rows() == batch.rows()
        && matches!(rope.cache.dtype(), DType::BF16 | DType::F8E4M3)
        && op.window.is_none()
        && op.soft_cap.is_none()
        && op.sinks.is_none()
        && are_aligned(8, &matrices)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_rows_leave_room_for_the_tiles_in_flight() {
        // `kInFlight` and `kHeld` of the kernel.
        let at_once = 4;
        let room = MOST_ROWS_ROOM.next_multiple_of(1024);
        let ring = (WHOLE_ROOM - REST_BYTES - room) / TILE_BYTES;
        assert!(ring >= at_once, "{ring} tiles");
    }

    #[test]
    fn shares_of_blocks_are_exact_without_a_division() {
        // As `GroupShare` of the kernel computes them; only the largest multiples of a block could be one too high.
        for blocks in 1..=MOST_BLOCKS as u64 {
            let inverse = 0x7fff_ffff / blocks + 1;
            for groups in [1, blocks - 1, blocks, 9496, (MOST_OUTPUTS / 16) as u64 - 1] {
                for block in 0..=blocks {
                    let found = (2 * block * groups * inverse) >> 32;
                    assert_eq!(
                        found,
                        block * groups / blocks,
                        "{groups} groups, {block} of {blocks}"
                    );
                }
            }
        }
    }

    #[test]
    fn copies_of_positions_never_cross_a_page() {
        for (page_size, expected) in [(1, 1), (8, 8), (16, 16), (24, 8), (48, 16), (64, 32)] {
            assert_eq!(run(page_size), expected, "pages of {page_size}");
        }
    }

    #[test]
    fn rows_are_padded_to_whole_tiles() {
        for (rows, inputs, tile, expected) in [
            (1, 512, 512, 1040),
            (1, 576, 512, 2064),
            (1, 576, 1024, 2064),
            (2, 4096, 512, 16_416),
            (2, 4224, 1024, 20_512),
        ] {
            assert_eq!(rows_room(rows, inputs, tile), expected, "{rows} × {inputs}");
        }
    }
}
