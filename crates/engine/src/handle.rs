use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Mutex, PoisonError};

use executor::DeviceLost;
use sampling::{LogProbRequest, SamplingParams, Token};
use tokio::sync::{mpsc, oneshot, watch};

use crate::clients::Clients;
use crate::command::{Command, RequestKey};
use crate::recording::{Recorded, Recording, RecordingError};
use crate::stream::TokenStream;
use crate::watchdog::Pulse;
use crate::{EngineConfig, EngineStats, RequestError, StepTimes};

/// One sequence to extend.
#[derive(Clone, Debug)]
pub struct GenerateRequest {
    /// The tokens to continue; at least one.
    pub prompt: Arc<[Token]>,
    /// How to sample.
    pub params: Arc<SamplingParams>,
    /// Which of a request's choices this is; choices draw different random numbers.
    pub choice: u32,
    /// Log-probabilities wanted besides the tokens.
    pub log_probs: Option<Arc<LogProbRequest>>,
    /// Prefixes are shared within a namespace only.
    pub namespace: Option<Arc<str>>,
    /// How important it is under the priority policy.
    pub priority: Option<i32>,
}

/// What handles and the engine thread both look at; never a lock on the token path.
pub(crate) struct Shared {
    pub(crate) config: EngineConfig,
    pub(crate) stats: Mutex<EngineStats>,
    pub(crate) times: Mutex<StepTimes>,
    /// Requests sent and not yet taken up by the engine thread.
    pub(crate) inbox: AtomicUsize,
    /// Sequences that wait. Who leaves the inbox is counted here first, so that the queue never looks shorter than it is.
    pub(crate) waiting: AtomicUsize,
    /// Places of the queue that are there for probes, beside those of the configuration.
    pub(crate) probes: AtomicUsize,
    pub(crate) draining: AtomicBool,
    pub(crate) healthy: AtomicBool,
    pub(crate) recorded: Recorded,
    pub(crate) pulse: Pulse,
    pub(crate) clients: Clients,
    next_key: AtomicU64,
}

impl Shared {
    pub(crate) fn new(config: EngineConfig) -> Self {
        Self {
            config,
            stats: Mutex::default(),
            times: Mutex::default(),
            inbox: AtomicUsize::new(0),
            waiting: AtomicUsize::new(0),
            probes: AtomicUsize::new(0),
            draining: AtomicBool::new(false),
            healthy: AtomicBool::new(true),
            recorded: Recorded::default(),
            pulse: Pulse::default(),
            clients: Clients::default(),
            next_key: AtomicU64::new(1),
        }
    }

    /// Health turns and everybody who reads is told why; whoever comes later with another reason is not heard.
    pub(crate) fn fail(&self, lost: &DeviceLost) {
        if self.healthy.swap(false, Ordering::AcqRel) {
            self.clients.fail(&lost.to_string());
        }
    }
}

/// A way to the engine; cheap to clone.
#[derive(Clone)]
pub struct EngineHandle {
    pub(crate) commands: Sender<Command>,
    pub(crate) shared: Arc<Shared>,
    /// Requests sent and not yet ended.
    pub(crate) active: watch::Receiver<usize>,
}

impl EngineHandle {
    /// Queues a sequence, or says at once why not. Dropping the stream cancels it.
    pub fn generate(&self, request: GenerateRequest) -> Result<TokenStream, RequestError> {
        self.check(&request)?;
        self.take_place()?;
        let key = RequestKey(self.shared.next_key.fetch_add(1, Ordering::Relaxed));
        let (events, receiver) = mpsc::unbounded_channel();
        self.shared.clients.add(key, &events)?;
        let shared = Arc::clone(&self.shared);
        let stream = TokenStream::new(key, receiver, self.commands.clone(), shared);
        let sent = self.commands.send(Command::Generate {
            key,
            request,
            events,
        });
        sent.map_err(|_| RequestError::ShuttingDown)?;
        Ok(stream)
    }

    /// What is refused without asking the engine thread.
    fn check(&self, request: &GenerateRequest) -> Result<(), RequestError> {
        let config = &self.shared.config;
        if self.shared.draining.load(Ordering::Acquire) || !self.is_healthy() {
            return Err(RequestError::ShuttingDown);
        }
        if config.priorities.refuse && request.priority.is_some() {
            return Err(RequestError::PriorityDisabled);
        }
        let prompt = request.prompt.len();
        if prompt == 0 {
            return Err(RequestError::EmptyPrompt);
        }
        if prompt >= config.context_length {
            return Err(RequestError::PromptTooLong {
                tokens: prompt,
                limit: config.context_length,
            });
        }
        let output = request
            .params
            .max_new_tokens
            .map_or(0, |tokens| tokens as usize);
        if prompt + output >= config.context_length {
            let (limit, total) = (config.context_length, prompt + output);
            return Err(RequestError::TotalTooLong {
                limit,
                total,
                prompt,
                output,
            });
        }
        let capacity = config.scheduler.max_sequence_tokens() as usize;
        if prompt + output > capacity {
            return Err(RequestError::NeverFits {
                tokens: prompt + output,
                capacity,
            });
        }
        self.check_tokens(request)
    }

    /// Takes a place in the queue; two who come at once do not get the same one. Where priorities count, the engine
    /// thread decides who leaves a full queue.
    fn take_place(&self) -> Result<(), RequestError> {
        let shared = &self.shared;
        if shared.config.scheduler.order.priorities().is_some() {
            shared.inbox.fetch_add(1, Ordering::AcqRel);
            return Ok(());
        }
        let place = |inbox| {
            let queued = inbox + shared.waiting.load(Ordering::Acquire);
            let probes = shared.probes.load(Ordering::Acquire);
            (queued < shared.config.max_waiting.saturating_add(probes)).then_some(inbox + 1)
        };
        shared
            .inbox
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, place)
            .map(drop)
            .map_err(|_| RequestError::QueueFull)
    }

    fn check_tokens(&self, request: &GenerateRequest) -> Result<(), RequestError> {
        let vocabulary = self.shared.config.vocabulary;
        let chosen = request.log_probs.iter().flat_map(|asked| &asked.token_ids);
        if let Some(&token) = request
            .prompt
            .iter()
            .chain(chosen)
            .find(|&&token| token as usize >= vocabulary)
        {
            return Err(RequestError::UnknownToken { token, vocabulary });
        }
        let asked = request
            .log_probs
            .as_ref()
            .map_or(0, |asked| asked.top as usize + asked.token_ids.len());
        let limit = executor::MAX_SCORES.min(vocabulary);
        if asked > limit {
            Err(RequestError::TooManyLogProbs { asked, limit })
        } else {
            Ok(())
        }
    }

    /// The engine at a glance.
    pub fn stats(&self) -> EngineStats {
        self.shared
            .stats
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Where the time of steps went so far.
    pub fn step_times(&self) -> StepTimes {
        self.shared
            .times
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// What the engine was started with.
    pub fn config(&self) -> &EngineConfig {
        &self.shared.config
    }

    /// Empties the prefix cache; false when sequences run or wait. Those that have ended or were cancelled before do not count:
    /// it waits for the steps in which they still are.
    pub async fn flush_cache(&self) -> bool {
        let (done, answer) = oneshot::channel();
        if self.commands.send(Command::Flush(done)).is_err() {
            return false;
        }
        answer.await.unwrap_or(false)
    }

    /// Records steps until `steps` have run, [`Self::stop_profile`] is called or the recording is full.
    pub fn start_profile(&self, steps: Option<u64>) -> Result<Recording, RecordingError> {
        self.shared.recorded.begin(|result| {
            let start = Command::StartProfile { steps, result };
            self.commands.send(start).is_ok()
        })
    }

    /// Ends the recording that runs.
    pub fn stop_profile(&self) -> Result<(), RecordingError> {
        let stop = || self.commands.send(Command::StopProfile).is_ok();
        self.shared.recorded.end(stop)
    }

    /// False once the device was lost or the engine thread has ended.
    pub fn is_healthy(&self) -> bool {
        self.shared.healthy.load(Ordering::Acquire)
    }

    /// From now on new requests are refused; those queued and running go on.
    pub fn drain(&self) {
        self.shared.draining.store(true, Ordering::Release);
    }

    /// Resolves when nothing runs or waits, or the engine is gone.
    pub async fn idle(&self) {
        let mut active = self.active.clone();
        let has_work = |active: &mut watch::Receiver<usize>| {
            self.shared.inbox.load(Ordering::Acquire) > 0 || *active.borrow_and_update() > 0
        };
        while has_work(&mut active) && self.is_healthy() {
            if active.changed().await.is_err() {
                return;
            }
        }
    }
}
