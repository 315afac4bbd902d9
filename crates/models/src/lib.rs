//! Specs, layers and architectures: what a model's dimensions are, what its weights are called, in which order the
//! pieces run.
//!
//! A model writes down what a step computes, before its weights are loaded; devices decide how. This crate neither
//! schedules nor samples, and it reads files only while loading.

mod arch;
mod config;
mod dummy;
mod error;
mod format;
mod inventory;
mod loader;
mod model;
mod open;
mod quantisation;
mod registry;
mod rope;
mod scales;
mod spec;
mod stack;
mod streamed;

pub use config::{spec_from_config, spec_from_gguf};
pub use dummy::DummyWeights;
pub use error::{LoadError, OpenError, SpecError, TooLarge};
pub use inventory::Inventory;
pub use loader::Progress;
pub use model::{LoadOptions, Model, load, program};
pub use open::{OpenedModel, open, read_spec};
pub use quantisation::Quantisation;
pub use registry::architectures;
pub use rope::{RopeScaling, RopeSpec};
pub use spec::{Biases, LayerSpec, ModelSpec, Norms, QueryKeyNorm};
