//! What ranks do together. Every rank makes up the inputs of all of them, and brings its own to its device.

use tensor::DType;

use super::super::bench::{Bench, Twin};
use super::super::compare::Kind;
use crate::host::copy_rows;
use crate::{AllGather, AllReduce, Comm};

const SHAPES: [(usize, usize); 7] = [
    (1, 1),
    (3, 17),
    (1, 4096),
    (64, 1536),
    (5, 1001),
    (130, 4096),
    (0, 64),
];
const FLOATS: [DType; 3] = [DType::F32, DType::F16, DType::BF16];
/// Replays of one capture.
const REPLAYS: usize = 3;

/// This rank's matrix, and the sum of all ranks' as they were rounded.
fn matrices(
    bench: &mut Bench<'_>,
    comm: &dyn Comm,
    (rows, cols, dtype): (usize, usize, DType),
) -> (Twin, Twin) {
    let mut all: Vec<Twin> = (0..comm.ranks())
        .map(|_| {
            let values = bench.normals(rows * cols);
            bench.floats(rows, cols, dtype, &values)
        })
        .collect();
    let mut sums = bench.poisoned(rows, cols, false, (DType::F32, dtype));
    for row in 0..rows {
        for col in 0..cols {
            let each = all
                .iter()
                .map(|twin| f64::from(twin.host().value(row, col)));
            sums.host_mut().set(row, col, each.sum::<f64>() as f32);
        }
    }
    (all.swap_remove(comm.rank()), sums)
}

pub(super) fn all_reduce(bench: &mut Bench<'_>, comm: &dyn Comm) {
    for dtype in FLOATS {
        for (rows, cols) in SHAPES {
            let (mine, mut sums) = matrices(bench, comm, (rows, cols, dtype));
            let case = format!("{} ranks, {rows}×{cols} {dtype}", comm.ranks());
            let ran = bench.copy(&mine, &mut sums).and_then(|()| {
                comm.all_reduce(AllReduce {
                    values: sums.device_mut(),
                })
            });
            bench.compare("all_reduce", &case, Kind::Float(dtype), &ran, &sums);
            same_everywhere(bench, comm, &case, &sums);
        }
    }
}

/// Every rank has the same bits: each shows its own to all.
fn same_everywhere(bench: &mut Bench<'_>, comm: &dyn Comm, case: &str, sums: &Twin) {
    let (rows, cols, dtype) = {
        let view = sums.device();
        (view.rows(), view.cols(), view.dtype())
    };
    let mut shown = bench.typed_output(comm.ranks() * rows, cols, dtype);
    let ran = comm.all_gather(AllGather {
        x: sums.device(),
        out: shown.device_mut(),
    });
    let error = ran
        .map_err(|error| error.to_string())
        .map(|()| differing(bench, sums, &shown));
    let case = format!("{case}, the same on every rank");
    bench.found("all_reduce", &case, Kind::Exact, error);
}

/// How many numbers of all ranks are not to the bit what this one has in their place.
fn differing(bench: &Bench<'_>, mine: &Twin, all: &Twin) -> f64 {
    let (mine, all) = (bench.read(mine), bench.read(all));
    let differ = all
        .iter()
        .enumerate()
        .filter(|(index, value)| value.to_bits() != mine[index % mine.len()].to_bits());
    differ.count() as f64
}

pub(super) fn all_gather(bench: &mut Bench<'_>, comm: &dyn Comm) {
    for (rows, cols) in SHAPES {
        for dtype in [DType::F32, DType::BF16, DType::U32] {
            let all: Vec<Twin> = (0..comm.ranks())
                .map(|_| {
                    let bytes: Vec<u8> = (0..rows * cols * dtype.size())
                        .map(|_| bench.below(128) as u8)
                        .collect();
                    bench.bytes(rows, cols, dtype, &bytes)
                })
                .collect();
            let mut out = bench.typed_output(comm.ranks() * rows, cols, dtype);
            for (rank, twin) in all.iter().enumerate() {
                let place = rank * rows..(rank + 1) * rows;
                copy_rows(twin.host(), out.host_mut().row_range(place));
            }
            let ran = comm.all_gather(AllGather {
                x: all[comm.rank()].device(),
                out: out.device_mut(),
            });
            let case = format!("{} ranks, {rows}×{cols} {dtype}", comm.ranks());
            bench.compare("all_gather", &case, Kind::Exact, &ran, &out);
        }
    }
}

/// Captured with what is before and behind it, and replayed with whatever its inputs hold then; nothing where a device
/// captures nothing.
pub(super) fn replayed(bench: &mut Bench<'_>, comm: &dyn Comm) {
    let (rows, cols, dtype) = (7, 1536, bench.activation());
    let (mut mine, mut sums) = matrices(bench, comm, (rows, cols, dtype));
    let mut gathered = bench.typed_output(comm.ranks() * rows, cols, dtype);
    let device = bench.device;
    let captured = device.capture(&mut || {
        device.copy(mine.device(), sums.device_mut())?;
        comm.all_reduce(AllReduce {
            values: sums.device_mut(),
        })?;
        comm.all_gather(AllGather {
            x: sums.device(),
            out: gathered.device_mut(),
        })
    });
    let graph = match captured {
        Ok(None) => return,
        Ok(Some(graph)) => graph,
        Err(error) => {
            bench.found(
                "all_reduce",
                "captured",
                Kind::Exact,
                Err(error.to_string()),
            );
            return;
        }
    };
    for replay in 0..REPLAYS {
        let (fresh, expected) = matrices(bench, comm, (rows, cols, dtype));
        let ran = bench
            .copy(&fresh, &mut mine)
            .and_then(|()| Ok(graph.replay()?));
        sums.take_host(expected);
        let case = format!("{} ranks, replay {replay}", comm.ranks());
        bench.compare("all_reduce", &case, Kind::Float(dtype), &ran, &sums);
        let error = Ok(differing(bench, &sums, &gathered));
        let case = format!("{case}, the same on every rank");
        bench.found("all_gather", &case, Kind::Exact, error);
    }
}
