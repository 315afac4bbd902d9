use std::sync::Arc;
use std::time::Duration;

use checkpoint::WeightSource;
use ops::{Device, Program, Weights};

use crate::arch::decoder;
use crate::loader::{Loader, SetUp};
use crate::{LoadError, ModelSpec, Progress};

/// Tensors that checkpoints carry and we compute ourselves, or do without: activations are scaled as they come.
const DERIVED: [&str; 5] = [
    "rotary_emb.inv_freq",
    "rope_freqs.weight",
    ".input_scale",
    ".k_scale",
    ".v_scale",
];

/// A model on a device: what a step computes, and the weights that it reads.
pub struct Model {
    spec: ModelSpec,
    program: Arc<Program>,
    weights: Weights,
    set_up: SetUp,
}

/// What loading needs to know besides the spec.
#[derive(Clone, Copy, Debug)]
pub struct LoadOptions {
    /// Positions that sequences may reach.
    pub max_positions: usize,
    /// Keep weights folded too, where the device can.
    pub fold: bool,
}

/// What a step of a model computes, before anything is loaded; sequences reach so many positions at most.
pub fn program(spec: &ModelSpec, max_positions: usize) -> Program {
    decoder::record(spec, max_positions)
}

/// Brings a model's weights to a device.
pub fn load(
    spec: ModelSpec,
    source: &dyn WeightSource,
    device: &dyn Device,
    options: LoadOptions,
    progress: &mut Progress<'_>,
) -> Result<Model, LoadError> {
    spec.check_device(device)?;
    let program = program(&spec, options.max_positions);
    let mut progress = |done, total| progress(done, total);
    let quantisation = &spec.quantisation;
    let loader = Loader::new(source, device, quantisation, options.fold, &mut progress)?;
    let weights = loader.load(&program)?;
    // Some tied checkpoints carry the head all the same.
    let head_too: &[&str] = if spec.tied { &["lm_head.weight"] } else { &[] };
    let set_up = loader.finish(&[&DERIVED, head_too].concat())?;
    Ok(Model {
        spec,
        program: Arc::new(program),
        weights,
        set_up,
    })
}

impl Model {
    /// Its dimensions.
    pub fn spec(&self) -> &ModelSpec {
        &self.spec
    }

    /// What a step computes.
    pub fn program(&self) -> &Arc<Program> {
        &self.program
    }

    /// What it reads.
    pub fn weights(&self) -> &Weights {
        &self.weights
    }

    /// Device memory of its weights.
    pub fn weight_bytes(&self) -> usize {
        self.weights.bytes()
    }

    /// What more they take because they are kept folded too.
    pub fn folded_bytes(&self) -> usize {
        self.set_up.folded
    }

    /// How long the device was busy with itself while weights came to it: choosing its ways to compute, not reading.
    pub fn set_up_time(&self) -> Duration {
        self.set_up.time
    }
}
