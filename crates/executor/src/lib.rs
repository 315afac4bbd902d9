//! Turns plans into device work: stages inputs, runs the model, samples, and brings the tokens back.
//!
//! A rank thread owns its device, the model's weights and the KV memory; it runs plans in the order submitted and never
//! decides anything. Which sequence runs when is the scheduler's business, what a token means is the text layer's.

mod channel;
mod compute;
mod config;
mod error;
mod graphs;
mod inputs;
mod kv_memory;
mod lists;
mod local;
mod memory_plan;
mod outcome;
mod rank;
mod sampler;
mod scores;
mod tables;

pub use config::ExecutorConfig;
pub use error::DeviceLost;
pub use local::LocalExecutor;
pub use memory_plan::{MemoryPlan, measure_scratch, transfer_bytes};
pub use ops::{DeviceSpan, DeviceTrace, NoTracer, Tracer};
pub use rank::Rank;
pub use scores::MAX_SCORES;

use std::sync::Arc;

use scheduler::{StepOutcome, StepPlan};

/// Runs steps in the order submitted; outcomes come back in the same order.
pub trait Executor: Send {
    /// Hands over a step; returns before it has run.
    fn submit(&mut self, plan: StepPlan) -> Result<(), DeviceLost>;

    /// Waits for the oldest step that was submitted.
    fn next_outcome(&mut self) -> Result<StepOutcome, DeviceLost>;

    /// What records the kernels of steps.
    fn tracer(&self) -> Result<Arc<dyn Tracer>, NoTracer> {
        Err(NoTracer("this executor runs no kernels".to_owned()))
    }
}
