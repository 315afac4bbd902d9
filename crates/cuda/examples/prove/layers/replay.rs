//! Layers in a graph have the bits that they have op by op.

use cuda::CudaDevice;
use cuda::fused::RowForm;
use ops::{Device as _, OpError};

use super::{Cache, Dims, Layer, MODELS, PAGE, Step};
use crate::bench::{Matrix, sync};

/// Rows and lengths; the last are so many that inputs of FP8 weights are rounded and handed on as codes.
const STEPS: [(usize, usize); 8] = [
    (1, 1088),
    (2, 1),
    (2, 5000),
    (3, 130),
    (8, 200),
    (20, 70),
    (64, 200),
    (72, 130),
];

type Make = fn(&CudaDevice, &Dims, u64) -> Layer;

/// True when layers have the same bits replayed as op by op.
pub(crate) fn replay_as_they_run(device: &CudaDevice) -> bool {
    let mut well = true;
    let narrow = device.info().float8.then_some(Layer::narrow as Make);
    let kinds = [Some(Layer::new as Make), Some(Layer::bf12), narrow];
    for dims in &MODELS {
        for make in kinds.into_iter().flatten() {
            let layers: Vec<Layer> = (0..2).map(|i| make(device, dims, i)).collect();
            for (rows, length) in STEPS {
                well &= replays(device, dims, &layers, rows, length);
            }
        }
    }
    well
}

/// The same of one small layer, for a tool that watches every access.
pub(crate) fn replays_small(device: &CudaDevice) -> bool {
    replays_some(device, Layer::new, &[2])
}

/// The same with bf12 weights.
pub(crate) fn bf12_small(device: &CudaDevice) -> bool {
    replays_some(device, Layer::bf12, &[2, 3])
}

/// The same with weights of one byte.
pub(crate) fn narrow_small(device: &CudaDevice) -> bool {
    replays_some(device, Layer::narrow, &[2, 3])
}

fn replays_some(device: &CudaDevice, make: Make, counts: &[usize]) -> bool {
    let dims = &MODELS[1];
    let layers = [make(device, dims, 0)];
    let replays = |&rows: &usize| replays(device, dims, &layers, rows, 130);
    counts.iter().all(replays)
}

fn replays(device: &CudaDevice, dims: &Dims, layers: &[Layer], rows: usize, length: usize) -> bool {
    let slots = rows * length.div_ceil(PAGE) * PAGE;
    let cache = |seed| Matrix::random(device, slots, dims.heads.kv_width(), seed);
    let mut caches: Vec<Cache> = (0..layers.len() as u64)
        .map(|i| (cache(i), cache(i + 9)))
        .collect();
    let (mut step, first) = (
        Step::new(device, dims, &vec![length; rows], 1),
        Matrix::random(device, rows, dims.hidden, 3),
    );
    let mut all = |step: &mut Step| {
        step.state = RowForm::Plain;
        for (layer, cache) in layers.iter().zip(&mut caches) {
            step.run(device, dims, layer, cache)?;
        }
        Ok::<(), OpError>(())
    };
    let begin = |step: &mut Step| {
        for to in [&mut step.hidden, &mut step.residual] {
            device.copy(first.view(), to.view_mut()).expect("a copy");
        }
        sync(device);
    };
    let graph = device.capture(&mut || all(&mut step)).expect("a capture");
    let graph = graph.expect("this device captures");
    begin(&mut step);
    all(&mut step).expect("ops");
    let eager = step.residual.read(device);
    begin(&mut step);
    graph.replay().expect("a replay");
    let replayed = step.residual.read(device);
    let same = eager
        .iter()
        .zip(&replayed)
        .all(|(a, b)| a.to_bits() == b.to_bits());
    let finite = eager.iter().all(|value| value.is_finite());
    let name = dims.name;
    println!("{name}, {rows} rows × {length}: equal bits {same}, finite {finite}");
    same && finite
}
