//! GEMMs whose blocks take a tile of outputs each, and the blocks of a cluster split K of one: of tens of rows and, with
//! eight-bit floats, of any few.

use ops::DeviceError;

use super::epilogue::{Epilogue, EpilogueParams};
use super::kernels::LinearParams;
use super::{DeviceWeight, Gemm};
use crate::context::Context;
use crate::launch::{Grid, WHOLE_ROOM, clusters_at_once, launch_clusters};
use crate::lower::DeferredScale;
use crate::module::{Function, Modules};
use crate::tensor_map::{TensorMap, TiledMatrix};

/// Outputs of a warpgroup.
const GROUP: usize = 64;
/// Warpgroups that the compiled shapes have.
const GROUPS: [usize; 3] = [1, 2, 3];
/// Rows of x that the compiled shapes for bf16 take.
const ROWS: [usize; 4] = [16, 32, 64, 128];
/// Blocks that split K of a tile; eight is the most that every device takes for a cluster.
const PARTS: [usize; 4] = [1, 2, 4, 8];
/// Shapes are tried that keep the busiest SM busy for at most this ratio of the best one's time.
const TRIED: (usize, usize) = (4, 3);
/// The shape for weights of at most `SHORT_BYTES` with 33 to 64 rows. These GEMMs are so short that what counts is how soon
/// their rows arrive and how many SMs the next kernel finds free, which timing them alone does not show.
const SHORT: Cluster = Cluster {
    groups: 2,
    rows: 64,
    parts: 4,
};
const SHORT_BYTES: usize = 8 << 20;
/// One compiled kernel and its cluster size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cluster {
    /// Warpgroups of a block, 64 outputs each.
    groups: usize,
    /// Rows of x that it takes.
    rows: usize,
    /// Blocks of a cluster, which split K of a tile.
    parts: usize,
}

impl Cluster {
    /// Rows of x in a TMA tile.
    pub(super) fn rows(self) -> usize {
        self.rows
    }

    fn outputs(self) -> usize {
        GROUP * self.groups
    }

    pub(super) fn blocks(self, outputs: usize) -> usize {
        outputs.div_ceil(self.outputs()) * self.parts
    }

    /// Tiles of bf12 gates: where each SM has at most one tile and not all have one, some tiles have 64 outputs less, so that
    /// all SMs have one.
    fn spread(self, outputs: usize, units: usize) -> Tiles {
        let (all, groups) = (self.blocks(outputs), outputs.div_ceil(GROUP));
        let least = units * (self.groups - 1);
        if self.parts == 1 && all < units && groups > least && least > 0 {
            Tiles {
                full: groups - least,
                all: units,
            }
        } else {
            Tiles { full: all, all }
        }
    }

    /// Stages of 64 outputs that the busiest SM goes through.
    fn work(self, outputs: usize, stages: usize, at_once: &AtOnce) -> usize {
        let turns = self.blocks(outputs).div_ceil(at_once.blocks(self).max(1));
        turns * self.groups * stages.div_ceil(self.parts)
    }

    fn fits(self, outputs: usize, stages: usize, at_once: &AtOnce) -> bool {
        let alone = self.parts == 1;
        self.parts <= stages && (alone || self.blocks(outputs) <= at_once.blocks(self))
    }
}

/// Tiles of a GEMM, and how many of them, the first ones, have all outputs of a tile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Tiles {
    pub(super) full: usize,
    pub(super) all: usize,
}

/// Blocks that run at the same time, for each cluster size.
///
/// Clusters do not cross certain groups of SMs (GPCs), which differ from one device to the next.
struct AtOnce([usize; PARTS.len()]);

impl AtOnce {
    fn ask(function: Function, units: usize, threads: usize) -> Result<Self, DeviceError> {
        let mut blocks = [units; _];
        for (blocks, cluster) in blocks.iter_mut().zip(PARTS).skip(1) {
            let grid = Grid {
                blocks: (units / cluster * cluster, 1, 1),
                threads,
                shared: WHOLE_ROOM,
            };
            *blocks = cluster * clusters_at_once(function, grid, cluster)?;
        }
        Ok(Self(blocks))
    }

    fn blocks(&self, cluster: Cluster) -> usize {
        let place = PARTS.iter().position(|&parts| parts == cluster.parts);
        self.0[place.expect("shapes come from the lists")]
    }
}

/// The compiled kernels of one weight format, by epilogue, rows and warpgroups.
pub(super) struct Shapes<const COUNT: usize> {
    functions: [[[Function; GROUPS.len()]; COUNT]; Epilogue::NAMES.len()],
    rows: [usize; COUNT],
    /// Inputs of a stage.
    stage: usize,
    /// Ping-pong warpgroups where tiles have 64 outputs.
    ping_pong_of_one: usize,
    at_once: AtOnce,
}

/// Threads of a block with tiles of `groups` times 64 outputs.
fn threads(groups: usize, ping_pong_of_one: usize) -> usize {
    let computing = if groups == 1 {
        ping_pong_of_one
    } else {
        groups
    };
    2 * GROUP * (computing + 1)
}

impl<const COUNT: usize> Shapes<COUNT> {
    /// Finds the kernels with these prefixes, by epilogue.
    pub(super) fn find(
        (modules, units): (&Modules, usize),
        names: [&str; Epilogue::NAMES.len()],
        rows: [usize; COUNT],
        (stage, ping_pong_of_one): (usize, usize),
    ) -> Result<Self, DeviceError> {
        let mut functions = [[[modules.find("linear_any")?; _]; _]; _];
        for (by_rows, name) in functions.iter_mut().zip(names) {
            for (by_groups, rows) in by_rows.iter_mut().zip(rows) {
                for (function, groups) in by_groups.iter_mut().zip(GROUPS) {
                    let name = format!("{name}_cluster_{groups}x{rows}");
                    *function = modules.find_with_shared(&name, WHOLE_ROOM)?;
                }
            }
        }
        let at_once = AtOnce::ask(functions[0][0][0], units, threads(1, ping_pong_of_one))?;
        Ok(Self {
            functions,
            rows,
            stage,
            ping_pong_of_one,
            at_once,
        })
    }

    /// Candidates for a GEMM of `rows` rows.
    pub(super) fn variants(&self, rows: usize, (outputs, inputs): (usize, usize)) -> Vec<Cluster> {
        let Some(rows) = self.rows.into_iter().find(|&most| most >= rows) else {
            return Vec::new();
        };
        let stages = inputs.div_ceil(self.stage);
        let shapes = GROUPS.into_iter().flat_map(|groups| {
            PARTS.map(|parts| Cluster {
                groups,
                rows,
                parts,
            })
        });
        let fit: Vec<Cluster> = shapes
            .filter(|cluster| cluster.fits(outputs, stages, &self.at_once))
            .collect();
        let work = |cluster: &Cluster| cluster.work(outputs, stages, &self.at_once);
        let least = fit.iter().map(work).min().unwrap_or(0);
        let worth = |cluster: &Cluster| work(cluster) * TRIED.1 <= least * TRIED.0;
        fit.into_iter().filter(worth).collect()
    }

    /// How bf12 gates of `outputs` outputs are split into tiles.
    pub(super) fn spread(&self, cluster: Cluster, outputs: usize) -> Tiles {
        cluster.spread(
            outputs,
            self.at_once.blocks(Cluster {
                parts: 1,
                ..cluster
            }),
        )
    }

    /// Enqueues `blocks` blocks of a kernel.
    ///
    /// # Safety
    /// `P` must be the kernel's parameter struct, and its addresses must be valid for what the kernel does.
    pub(super) unsafe fn launch<P: Copy>(
        &self,
        context: &Context,
        cluster: Cluster,
        (epilogue, blocks): (&Epilogue<'_>, usize),
        params: &P,
    ) -> Result<(), DeviceError> {
        let grid = Grid {
            blocks: (blocks, 1, 1),
            threads: threads(cluster.groups, self.ping_pong_of_one),
            shared: WHOLE_ROOM,
        };
        let place = |list: &[usize], of| list.iter().position(|&known| known == of);
        let by_rows = place(&self.rows, cluster.rows).expect("shapes come from the lists");
        let by_groups = place(&GROUPS, cluster.groups).expect("shapes come from the lists");
        let function = self.functions[epilogue.number()][by_rows][by_groups];
        // SAFETY: the caller's promise.
        unsafe { launch_clusters(context, function, grid, cluster.parts, params) }
    }
}

/// The kernels for bf16 weights.
pub(super) struct ClusterKernels(Shapes<{ ROWS.len() }>);

impl ClusterKernels {
    pub(super) fn find(modules: &Modules, units: usize) -> Result<Self, DeviceError> {
        let stage = TensorMap::SLICE as usize;
        Shapes::find((modules, units), Epilogue::NAMES, ROWS, (stage, 1)).map(Self)
    }

    /// Candidates for a GEMM of `rows` rows.
    pub(super) fn variants(&self, rows: usize, shape: (usize, usize)) -> Vec<Cluster> {
        self.0.variants(rows, shape)
    }

    /// The candidate for a short GEMM, `[outputs, inputs]`.
    pub(super) fn short(&self, rows: usize, shape: (usize, usize)) -> Option<Cluster> {
        is_short(rows, shape, &self.0.at_once).then_some(SHORT)
    }

    /// Enqueues a GEMM; rows of `x` are 16-byte aligned.
    pub(super) fn run(
        &self,
        context: &Context,
        cluster: Cluster,
        gemm: &Gemm<'_>,
        weight: &DeviceWeight,
        (norm, epilogue): (Option<DeferredScale<'_>>, &Epilogue<'_>),
    ) -> Result<(), DeviceError> {
        let x = &gemm.x;
        let outputs = epilogue.outputs(gemm);
        let stages = x.cols().div_ceil(TensorMap::SLICE as usize);
        let params = LinearParams {
            weight: weight_map(
                weight.buffer.address() as u64,
                (outputs, x.cols()),
                cluster,
                epilogue.is_gated(),
            )?,
            x: gemm.row_tiles(cluster.rows)?,
            epilogue: EpilogueParams::new(gemm, (outputs, stages), norm, epilogue)
                .delaying_dependents(context.begins_with_opening()?),
        };
        let blocks = cluster.blocks(outputs);
        // SAFETY: the struct of the kernel; addresses and strides come from checked views.
        unsafe { self.0.launch(context, cluster, (epilogue, blocks), &params) }
    }
}

/// True when a GEMM of `rows` rows, `[outputs, inputs]`, is one for [`SHORT`].
fn is_short(rows: usize, (outputs, inputs): (usize, usize), at_once: &AtOnce) -> bool {
    let stages = inputs.div_ceil(TensorMap::SLICE as usize);
    (SHORT.rows / 2 + 1..=SHORT.rows).contains(&rows)
        && 2 * outputs * inputs <= SHORT_BYTES
        && SHORT.fits(outputs, stages, at_once)
}

/// TMA tiles of a tile's outputs; of gates, eight gates and their eight up rows alternate.
fn weight_map(
    address: u64,
    (outputs, inputs): (usize, usize),
    cluster: Cluster,
    gated: bool,
) -> Result<TensorMap, DeviceError> {
    let (stride, slice) = (2 * inputs as u64, TensorMap::SLICE);
    let (inputs, outputs, tile) = (inputs as u64, outputs as u64, cluster.outputs() as u32);
    if gated {
        return TensorMap::new(&TiledMatrix {
            address,
            sizes: &[inputs, 8, 2, outputs / 16],
            strides: &[stride, outputs / 2 * stride, 8 * stride],
            shape: &[slice, 8, 2, tile / 16],
        });
    }
    TensorMap::new(&TiledMatrix {
        address,
        sizes: &[inputs, outputs],
        strides: &[stride],
        shape: &[slice, tile],
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_gemms_are_those_of_small_weights_with_tens_of_rows() {
        // as an H200 has them
        let at_once = AtOnce([132, 132, 120, 120]);
        for (rows, shape, expected) in [
            (64, (1536, 1536), true),
            (33, (2048, 1536), true),
            (32, (1536, 1536), false),
            (65, (1536, 1536), false),
            (64, (2048, 2048), true),
            (64, (2112, 2048), false),
            // more clusters than run at once
            (64, (4096, 1024), false),
            (64, (1536, 192), false),
        ] {
            assert_eq!(
                is_short(rows, shape, &at_once),
                expected,
                "{rows} rows, {shape:?}"
            );
        }
    }

    #[test]
    fn gates_are_shared_out_among_all_multiprocessors() {
        let cluster = |groups, parts| Cluster {
            groups,
            rows: 64,
            parts,
        };
        for (cluster, outputs, full, all) in [
            // 16 tiles of 192 outputs and 116 of 128
            (cluster(3, 1), 17_920, 16, 132),
            (cluster(3, 1), 24_576, 120, 132),
            // every multiprocessor has one, or more than one
            (cluster(3, 1), 25_344, 132, 132),
            (cluster(3, 1), 51_200, 267, 267),
            // tiles of 128 would be as many as there are multiprocessors, or fewer
            (cluster(3, 1), 16_896, 88, 88),
            (cluster(2, 1), 8_512, 1, 132),
            (cluster(1, 1), 8_000, 125, 125),
            (cluster(3, 2), 11_520, 120, 120),
        ] {
            let tiles = cluster.spread(outputs, 132);
            assert_eq!(tiles, Tiles { full, all }, "{cluster:?}, {outputs} outputs");
            let groups = full * cluster.groups + (all - full) * (cluster.groups - 1);
            assert!(
                cluster.parts > 1 || groups >= outputs.div_ceil(GROUP),
                "{cluster:?}, {outputs} outputs"
            );
        }
    }
}
