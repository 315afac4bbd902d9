use std::hash::{BuildHasher as _, RandomState};
use std::sync::Arc;

use engine::EngineHandle;
use http::header::AUTHORIZATION;
use http::{HeaderMap, HeaderValue};

use crate::admission::Admission;
use crate::clock;
use crate::config::{PrefixIsolation, ServerConfig};
use crate::convert::Caller;
use crate::convert::native::Rules;
use crate::metrics::{Metrics, Room};
use crate::pipeline::TextPipeline;
use crate::profiles::Profiles;
use crate::routes::health::Checking;
use crate::running::Running;
use crate::unknown::UnknownMembers;
use crate::work::Work;

/// What all handlers share.
pub(crate) struct State {
    pub(crate) config: ServerConfig,
    pub(crate) engine: EngineHandle,
    /// Absent when the server takes and gives tokens only.
    pub(crate) text: Option<Arc<TextPipeline>>,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) admission: Admission,
    pub(crate) running: Running,
    pub(crate) checking: Checking,
    pub(crate) profiles: Profiles,
    pub(crate) work: Work,
    pub(crate) unknown: UnknownMembers,
    /// Makes digests of API keys that mean nothing elsewhere.
    digests: [RandomState; 2],
    /// Seconds since 1970.
    pub(crate) started: u64,
}

/// A handle to it.
pub(crate) type Shared = Arc<State>;

impl State {
    pub(crate) fn new(
        config: ServerConfig,
        engine: EngineHandle,
        text: Option<TextPipeline>,
    ) -> Self {
        Self {
            metrics: Arc::new(Metrics::new(name_in_metrics(&config), config.start_times)),
            config,
            engine,
            text: text.map(Arc::new),
            admission: Admission::new(),
            running: Running::default(),
            checking: Checking::default(),
            profiles: Profiles::default(),
            work: Work::new(),
            unknown: UnknownMembers::default(),
            digests: [RandomState::new(), RandomState::new()],
            started: clock::unix_seconds(),
        }
    }

    /// Tokens a sequence may have.
    pub(crate) fn context_length(&self) -> usize {
        self.engine.config().context_length
    }

    /// What the server adds to what requests say about sampling.
    pub(crate) fn rules(&self) -> Rules {
        Rules {
            vocabulary: self.vocabulary(),
            stream_interval: self.config.stream_interval.max(1),
            has_text: self.text.is_some(),
            longest_output: (!self.config.auto_truncate).then(|| self.context_length()),
        }
    }

    /// Who finds the prefixes of a request with these headers.
    pub(crate) fn caller(&self, headers: &HeaderMap) -> Caller {
        match self.config.prefix_isolation {
            PrefixIsolation::None => Caller::Anyone,
            PrefixIsolation::Salt => Caller::Stranger,
            PrefixIsolation::Key => {
                let key = headers.get(AUTHORIZATION).map(HeaderValue::as_bytes);
                let [first, second] = self.digests.each_ref().map(|state| state.hash_one(key));
                Caller::Key(format!("{first:016x}{second:016x}").into())
            }
        }
    }

    /// What the engine has room for.
    pub(crate) fn room(&self) -> Room {
        let scheduler = &self.engine.config().scheduler;
        Room {
            rows: scheduler.max_rows,
            tokens: u64::from(scheduler.pages) * u64::from(scheduler.page_size.tokens()),
        }
    }

    /// Size of the vocabulary.
    pub(crate) fn vocabulary(&self) -> usize {
        self.engine.config().vocabulary
    }
}

/// As clients call the model; where metrics are open to others than them, without the folder of one that is served under its
/// path.
fn name_in_metrics(config: &ServerConfig) -> &str {
    let name = config.served_model_name.as_str();
    let is_open = config.keys.are_set() && config.keys.public_metrics;
    let end = name.trim_end_matches('/').rsplit('/').next();
    end.filter(|_| is_open && name.starts_with(['/', '.', '~']))
        .unwrap_or(name)
}
