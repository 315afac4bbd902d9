use std::time::Duration;

use checkpoint::WeightSource;
use ops::{Device, Draw, Kernels, OpError};
use tensor::{Scratch, View, ViewMut};

use crate::arch::decoder::Decoder;
use crate::{LoadError, ModelSpec, Progress, Step};

/// A model on a device.
pub trait Model: Send {
    /// Its dimensions.
    fn spec(&self) -> &ModelSpec;

    /// Runs the layers: `hidden`, `[wanted tokens, hidden]`, becomes what the output head reads.
    fn forward(&self, step: &Step<'_>, hidden: ViewMut<'_>) -> Result<(), OpError>;

    /// Scores every token: `rows` are `[n, hidden]` of what `forward` left, `logits` is `[n, vocabulary]` f32.
    fn head(
        &self,
        kernels: &dyn Kernels,
        scratch: &Scratch,
        rows: View<'_>,
        logits: ViewMut<'_>,
    ) -> Result<(), OpError>;

    /// Both at once, where nobody else reads what the layers leave: `hidden` is only the room for it.
    fn forward_to_logits(
        &self,
        step: &Step<'_>,
        hidden: ViewMut<'_>,
        logits: ViewMut<'_>,
    ) -> Result<(), OpError>;

    /// The same, and each row draws the token with the largest score, as [`ops::LinearLargest`] does: `logits` is only room too.
    fn forward_to_tokens(
        &self,
        step: &Step<'_>,
        hidden: ViewMut<'_>,
        logits: ViewMut<'_>,
        draw: Draw<'_>,
    ) -> Result<(), OpError>;

    /// Device memory of its weights.
    fn weight_bytes(&self) -> usize;

    /// What more they take because they are kept folded too.
    fn folded_bytes(&self) -> usize;

    /// How long the device was busy with itself while weights came to it in pieces: choosing its ways to compute, not
    /// reading.
    fn set_up_time(&self) -> Duration;
}

/// What loading needs to know besides the spec.
#[derive(Clone, Copy, Debug)]
pub struct LoadOptions {
    /// Positions that sequences may reach.
    pub max_positions: usize,
    /// Keep weights folded too, where the device can.
    pub fold: bool,
}

/// Brings a model's weights to a device.
pub fn load(
    spec: ModelSpec,
    source: &dyn WeightSource,
    device: &dyn Device,
    options: LoadOptions,
    progress: &mut Progress<'_>,
) -> Result<Box<dyn Model>, LoadError> {
    spec.check_device(device)?;
    Ok(Box::new(Decoder::load(
        spec, source, device, options, progress,
    )?))
}
