//! Something a reader of a result must know.

use serde::{Deserialize, Serialize};

/// What kind of thing was noticed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// A first run that is worse than its repeats.
    ColdRun,
    /// Figures that drift while a run lasts.
    Trend,
    /// A gap between tokens out of all proportion.
    Stall,
    /// Prompts that were found in the prefix cache.
    CacheHits,
    /// A processor that slowed itself down.
    Throttled,
    /// A client that could not keep up.
    ClientLimited,
    /// Token counts that contradict each other.
    TokenMismatch,
    /// Requests or runs far from all others.
    Outlier,
    /// All requests at once without a limit: times to the first token are queueing.
    OpenLoop,
    /// A peak that cannot have been.
    PeakOvercount,
    /// Requests that failed.
    Failures,
    /// Arms that differ in more than one thing.
    Confounder,
    /// Arms that were measured one after the other.
    Order,
    /// Arms that did not do the same work.
    Work,
    /// A setting that did nothing.
    NoEffect,
    /// The same prompts sent twice to a server that remembers them.
    RepeatedPrompts,
    /// Versions that contradict each other.
    Version,
    /// A text that could not be taken at its word.
    Text,
    /// Processes that outlived their server.
    LeftBehind,
    /// A machine that was busy with something else.
    BusyMachine,
    /// A log that was cut.
    LogCut,
}

impl Kind {
    /// Two or three words for tables.
    pub fn title(self) -> &'static str {
        match self {
            Self::ColdRun => "cold run",
            Self::Trend => "trend",
            Self::Stall => "stall",
            Self::CacheHits => "cache hits",
            Self::Throttled => "throttled",
            Self::ClientLimited => "client-limited",
            Self::TokenMismatch => "token mismatch",
            Self::Outlier => "outlier",
            Self::OpenLoop => "queueing",
            Self::PeakOvercount => "peak over-counted",
            Self::Failures => "failures",
            Self::Confounder => "confounder",
            Self::Order => "order",
            Self::Work => "work",
            Self::NoEffect => "no effect",
            Self::RepeatedPrompts => "repeated prompts",
            Self::Version => "version",
            Self::Text => "text",
            Self::LeftBehind => "left behind",
            Self::BusyMachine => "busy machine",
            Self::LogCut => "log cut",
        }
    }
}

/// One thing that was noticed, in a sentence.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// Its kind.
    pub kind: Kind,
    /// The sentence, with the numbers it rests on.
    pub text: String,
}

impl Finding {
    /// A finding of this kind.
    pub fn new(kind: Kind, text: impl Into<String>) -> Self {
        Self {
            kind,
            text: text.into(),
        }
    }
}

impl std::fmt::Display for Finding {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "{}: {}", self.kind.title(), self.text)
    }
}
