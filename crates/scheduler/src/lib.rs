//! Plan and commit: which sequences take part in the next step, with which tokens and pages, and
//! what becomes of what the step produced.
//!
//! The scheduler is a pure state machine. It has no clock (time is passed in), no device, no
//! text and no thread, and it writes no logs: the same calls always give the same plans.

mod admit;
mod budget;
mod commit;
mod config;
mod event;
mod integrity;
mod new_sequence;
mod outrank;
mod plan;
mod progress;
mod queue;
mod retract;
mod rows;
mod running;
mod scheduler;
mod sequence;
mod stats;
mod step;

pub use config::{Mix, Order, PriorityRules, Reuse, SchedulerConfig, UnknownOrder};
pub use event::{DecodeEvent, Event, OutrankEvent, PrefillEvent, RetractEvent};
pub use integrity::IntegrityError;
pub use kv::{Namespace, Page, PageSize, Token};
pub use new_sequence::{Constraint, NewSequence, Rejected, SequenceId};
pub use progress::Progress;
pub use scheduler::Scheduler;
pub use stats::{Busy, SchedulerStats};
pub use step::{
    NewPages, PageCopy, Row, RowInput, RowOpen, RowOutcome, RowPlan, Sample, SampledToken, StepId,
    StepOutcome, StepPlan,
};
