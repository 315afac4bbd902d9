//! From arguments, a model and a device to the settings of every component, and why each is as it is.

mod gpu;
mod memory;
mod resolve;
mod shortfall;
mod show;

use engine::EngineConfig;
use executor::ExecutorConfig;
use models::{ModelSpec, TooLarge};
use ops::DeviceInfo;

use crate::args::Notice;

pub(crate) use self::memory::{Budget, estimate_scratch};
pub(crate) use self::resolve::resolve;
pub(crate) use self::shortfall::{Captures, Shortfall};
pub(crate) use self::show::table;

/// What resolution looks at besides the arguments.
pub(crate) struct Circumstances<'a> {
    /// The model's dimensions.
    pub(crate) spec: &'a ModelSpec,
    /// Whether some of its projections are stored in more than eight bits a number.
    pub(crate) stored_wide: bool,
    /// Bytes its weights take.
    pub(crate) weights: usize,
    /// What they take more when they are kept folded too.
    pub(crate) folding: Folding,
    /// The device's facts.
    pub(crate) device: &'a DeviceInfo,
    /// Bytes of work space that the largest step of such a configuration needs.
    pub(crate) scratch: &'a dyn Fn(&ExecutorConfig) -> usize,
    /// A number that differs from start to start, for the seed.
    pub(crate) entropy: u64,
}

/// Weights that are kept a second time, folded: bytes of it.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Folding {
    /// It is not decided yet.
    Possible(usize),
    /// That was taken.
    Done(usize),
}

/// The settings of every component.
#[derive(Debug)]
pub(crate) struct Launch {
    /// For the engine thread, the scheduler's among them.
    pub(crate) engine: EngineConfig,
    /// For the ranks.
    pub(crate) executor: ExecutorConfig,
    /// Row counts of the steps to capture; none where a device has no graphs.
    pub(crate) graphs: Vec<usize>,
    /// What would make them fewer, in words.
    pub(crate) fewer_graphs: &'static str,
    /// What the device's memory goes to.
    pub(crate) budget: Budget,
    /// Every resolved value and its reason.
    pub(crate) values: Vec<Resolved>,
    /// Given flags that change nothing here.
    pub(crate) notices: Vec<Notice>,
    /// Given values that are followed in part, as lines for the log.
    pub(crate) limited: Vec<String>,
}

impl Launch {
    /// Tells in the log what was given and is not followed in full.
    pub(crate) fn warn(&self) {
        for line in &self.limited {
            tracing::warn!("{line}");
        }
    }
}

/// One resolved value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Resolved {
    /// Its name, as in SGLang where it exists there.
    pub(crate) name: &'static str,
    /// The value.
    pub(crate) value: String,
    /// Where it comes from.
    pub(crate) why: String,
}

/// Settings that cannot be.
#[derive(Debug, thiserror::Error, PartialEq)]
pub(crate) enum ConfigError {
    /// A number outside its range.
    #[error("{flag} is {value}, it must be {range}")]
    OutOfRange {
        /// With dashes.
        flag: &'static str,
        /// As given.
        value: String,
        /// In words.
        range: &'static str,
    },
    /// More positions than the model knows.
    #[error("--context-length is {given}, the model was trained for {limit}")]
    ContextTooLong {
        /// As given.
        given: i64,
        /// The model's own limit.
        limit: usize,
    },
    /// More ranks than devices.
    #[error("{flag} {wanted} needs {wanted} devices, this version drives one; leave it at 1")]
    TooManyRanks {
        /// With dashes.
        flag: &'static str,
        /// As given.
        wanted: i64,
    },
    /// A choice of SGLang that is not here.
    #[error("{flag} {value} is not in this version; choose from {}", offered.join(", "))]
    NotOffered {
        /// With dashes.
        flag: &'static str,
        /// As given.
        value: String,
        /// What there is.
        offered: &'static [&'static str],
    },
    /// A GPU was asked for and there is none to use.
    #[error("--device cuda: {reason}; --device cpu runs without a GPU")]
    NoGpu {
        /// Why there is none.
        reason: String,
    },
    /// The device has no kernels for the model.
    #[error("{0}; --device cpu runs it")]
    TooLarge(TooLarge),
    /// The model does not fit.
    #[error("{0}")]
    NoRoom(memory::NoRoom),
}
