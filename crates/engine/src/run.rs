use std::collections::{BTreeMap, VecDeque};
use std::convert::Infallible;
use std::sync::Arc;
use std::sync::PoisonError;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use executor::{DeviceLost, Executor};
use sampling::{Abort, FinishReason, StopRules};
use scheduler::{Constraint, Namespace, NewSequence, Progress, Scheduler, SequenceId};
use tokio::sync::mpsc::UnboundedSender;
use tokio::sync::watch;

use crate::command::{Command, RequestKey};
use crate::floor::attended;
use crate::handle::Shared;
use crate::log::StepLog;
use crate::profile::{Kernels, Profile, Track, facts};
use crate::stream::TokenProgress;
use crate::watchdog::Watchdog;
use crate::{EngineConfig, EngineHandle, EngineStats, GenerateRequest, RequestFailed, TokenEvent};

/// The engine thread, to be stopped at the end.
pub struct EngineThread {
    commands: Sender<Command>,
    /// How serving ended: told by the engine thread as the last thing it does, or by the watchdog in its place.
    ended: Receiver<Result<(), DeviceLost>>,
}

impl EngineThread {
    /// Lets everything queued end, then ends the thread. One that waits for a device that never answers is left behind.
    pub fn stop(self) -> Result<(), DeviceLost> {
        // A thread that has ended already needs no word.
        let _ = self.commands.send(Command::Stop);
        let ended = self.ended.recv();
        ended.unwrap_or_else(|_| Err(DeviceLost::because("the engine thread is gone")))
    }
}

/// Starts the engine thread over an executor.
pub fn start(
    config: EngineConfig,
    executor: Box<dyn Executor>,
) -> std::io::Result<(EngineHandle, EngineThread)> {
    let (commands, inbox) = channel();
    let (active_sender, active) = watch::channel(0);
    let (end, ended) = channel();
    let (alive, engine) = channel();
    let shared = Arc::new(Shared::new(config));
    if let Some(patience) = shared.config.watchdog {
        let watchdog = Watchdog {
            patience,
            shared: Arc::clone(&shared),
            active: active_sender.clone(),
            ended: end.clone(),
            engine,
        };
        let thread = std::thread::Builder::new().name("watchdog".into());
        thread.spawn(move || watchdog.run())?;
    }
    let state = Engine {
        scheduler: Scheduler::new(shared.config.scheduler.clone()),
        executor,
        shared: Arc::clone(&shared),
        active: active_sender,
        keys: BTreeMap::new(),
        clients: BTreeMap::new(),
        in_flight: VecDeque::new(),
        completed: 0,
        last_returned: Duration::ZERO,
        busy_since: None,
        idle_since: None,
        profile: None,
        log: StepLog::new(
            shared.config.decode_log_interval,
            shared.config.largest_graph,
        ),
        started: Instant::now(),
        stopping: false,
    };
    let guarded = move || {
        let _alive: Sender<Infallible> = alive;
        let run = std::panic::AssertUnwindSafe(|| state.run(&inbox));
        let result = std::panic::catch_unwind(run).unwrap_or_else(|_| {
            tracing::error!("the engine thread panicked; serving state cannot be trusted any more");
            std::process::abort()
        });
        // Whoever hears of the end finds that nobody takes commands any more.
        drop(inbox);
        // Who started the engine may have let go of its thread.
        let _ = end.send(result);
    };
    std::thread::Builder::new()
        .name("engine".into())
        .spawn(guarded)?;
    let handle = EngineHandle {
        commands: commands.clone(),
        shared,
        active,
    };
    Ok((handle, EngineThread { commands, ended }))
}

/// One sequence's way back to its client.
struct Client {
    key: RequestKey,
    events: UnboundedSender<TokenEvent>,
    arrived: Duration,
}

/// A step that was submitted and has not come back.
struct InFlight {
    submitted: Duration,
    /// Tokens that its rows attend to, when it only generates.
    attended: Option<u64>,
    facts: String,
}

struct Engine {
    scheduler: Scheduler,
    executor: Box<dyn Executor>,
    shared: Arc<Shared>,
    active: watch::Sender<usize>,
    keys: BTreeMap<RequestKey, SequenceId>,
    clients: BTreeMap<SequenceId, Client>,
    in_flight: VecDeque<InFlight>,
    /// Steps that came back.
    completed: u64,
    last_returned: Duration,
    /// Since when the thread has worked for steps without a break.
    busy_since: Option<Duration>,
    /// Since when nothing has run or waited.
    idle_since: Option<Instant>,
    profile: Option<Profile>,
    log: StepLog,
    started: Instant,
    stopping: bool,
}

impl Engine {
    fn run(mut self, inbox: &Receiver<Command>) -> Result<(), DeviceLost> {
        let result = self.serve(inbox);
        match &result {
            Ok(()) => self.shared.healthy.store(false, Ordering::Release),
            Err(lost) => {
                tracing::error!("{lost}");
                self.shared.fail(lost);
            }
        }
        self.active.send_replace(0);
        result
    }

    fn serve(&mut self, inbox: &Receiver<Command>) -> Result<(), DeviceLost> {
        loop {
            if self.in_flight.is_empty() && self.scheduler.is_idle() {
                self.rest();
                if self.stopping {
                    return Ok(());
                }
                // Every handle is gone: nobody can ask for anything any more.
                let Ok(command) = inbox.recv() else {
                    return Ok(());
                };
                self.log.rest(self.started.elapsed());
                self.apply(command)?;
            }
            while let Ok(command) = inbox.try_recv() {
                self.apply(command)?;
            }
            if self.in_flight.len() < self.shared.config.run_ahead && self.submit_next()? {
                continue;
            }
            if self.in_flight.is_empty() {
                assert!(
                    self.scheduler.is_idle(),
                    "the scheduler has sequences and plans nothing for them"
                );
            } else {
                self.commit_oldest()?;
            }
        }
    }

    fn commit_oldest(&mut self) -> Result<(), DeviceLost> {
        let waiting = self.started.elapsed();
        self.shared.pulse.beat();
        let outcome = self.executor.next_outcome();
        self.shared.pulse.beat();
        if !self.shared.healthy.load(Ordering::Acquire) {
            return Err(DeviceLost::because("a step came back too late"));
        }
        let outcome = outcome?;
        let returned = self.started.elapsed();
        self.completed += 1;
        let progress = self.scheduler.commit(outcome, returned);
        self.emit(progress);
        self.publish();
        let step = self.in_flight.pop_front().expect("a step was in flight");
        self.take_down(&step, waiting, returned);
        if let Some(profile) = &mut self.profile {
            let begun = step.submitted.max(self.last_returned);
            profile.span("step", Track::Steps, begun, returned, step.facts);
            profile.span("wait", Track::Host, waiting, returned, String::new());
            let now = self.started.elapsed();
            profile.span("commit and emit", Track::Host, returned, now, String::new());
            if profile.step_done() {
                self.end_profile();
            }
        }
        self.last_returned = returned;
        Ok(())
    }

    /// Keeps the times of a step that was waited for from `waiting` until `returned`.
    fn take_down(&mut self, step: &InFlight, waiting: Duration, returned: Duration) {
        let floor = self.shared.config.floor;
        let mut times = self
            .shared
            .times
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if let Some(since) = self.busy_since.replace(returned) {
            times.host.add(waiting.saturating_sub(since));
        }
        let Some(tokens) = step.attended else {
            times.interrupt();
            return;
        };
        let took = returned.saturating_sub(step.submitted.max(self.last_returned));
        times.decoded(took, floor.map_or(0.0, |floor| floor.seconds(tokens)));
        if self.log.ends_interval() {
            StepLog::measured(&times.end_interval());
        }
    }

    fn end_profile(&mut self) {
        let Some(profile) = self.profile.take() else {
            return;
        };
        // Before its trace is handed over: after that, another may run.
        self.shared.recorded.mark_ended();
        if let Err(error) = profile.finish() {
            tracing::error!("no thread for the trace: {error}");
        }
    }

    fn submit_next(&mut self) -> Result<bool, DeviceLost> {
        let now = self.started.elapsed();
        let Some(plan) = self.scheduler.plan(now) else {
            return Ok(false);
        };
        let facts = self
            .profile
            .as_ref()
            .map_or_else(String::new, |_| facts(&plan));
        let attended = attended(&plan);
        if !plan.opens.is_empty() {
            self.publish();
        }
        self.executor.submit(plan)?;
        let submitted = self.started.elapsed();
        self.in_flight.push_back(InFlight {
            submitted,
            attended,
            facts,
        });
        if let Some(profile) = &mut self.profile {
            profile.span(
                "plan and submit",
                Track::Host,
                now,
                submitted,
                String::new(),
            );
        }
        for event in self.scheduler.take_events() {
            self.log.event(&event, now);
        }
        Ok(true)
    }

    fn rest(&mut self) {
        if let Err(broken) = self.scheduler.check_integrity() {
            panic!("{broken}");
        }
        self.busy_since = None;
        self.idle_since.get_or_insert_with(Instant::now);
        self.shared
            .times
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .interrupt();
        self.publish();
    }

    fn apply(&mut self, command: Command) -> Result<(), DeviceLost> {
        match command {
            Command::Generate {
                key,
                request,
                events,
            } => self.admit(key, &request, events),
            Command::Cancel(key) => self.end(key, FinishReason::Abort(Abort::Cancelled)),
            Command::Complete(key) => self.end(key, FinishReason::Stop { token: None }),
            Command::StartProfile { steps, result } => {
                if self.profile.is_none() {
                    let kernels = Kernels::begin(self.executor.tracer());
                    let now = self.started.elapsed();
                    self.profile = Some(Profile::begin(now, steps, kernels, result));
                }
            }
            Command::StopProfile => self.end_profile(),
            Command::Flush(done) => {
                self.settle()?;
                let flushed = self.scheduler.flush().is_ok();
                self.publish();
                // A caller that went away needs no answer.
                let _ = done.send(flushed);
            }
            Command::Stop => self.stopping = true,
        }
        Ok(())
    }

    /// Where every client has its answer or is gone, takes back the steps in flight: ended sequences leave with them.
    fn settle(&mut self) -> Result<(), DeviceLost> {
        while self.clients.is_empty() && !self.in_flight.is_empty() {
            self.commit_oldest()?;
        }
        Ok(())
    }

    fn end(&mut self, key: RequestKey, reason: FinishReason) {
        if let Some(id) = self.keys.remove(&key) {
            self.clients.remove(&id);
            self.scheduler.cancel(id, reason);
            self.publish();
        }
    }

    fn admit(
        &mut self,
        key: RequestKey,
        request: &GenerateRequest,
        events: UnboundedSender<TokenEvent>,
    ) {
        self.idle_since = None;
        let config = &self.shared.config;
        let priority = request.priority.or(config.priorities.default);
        if let Some(full) = self.queue_full_for(priority) {
            // The client may be gone already.
            let _ = events.send(TokenEvent::Progress(full));
            return self.left_inbox();
        }
        let config = &self.shared.config;
        let sequence = NewSequence {
            prompt: Arc::clone(&request.prompt),
            params: Arc::clone(&request.params),
            stop: Arc::new(StopRules::new(&request.params, &config.end_tokens)),
            seed: request
                .params
                .seed
                .unwrap_or_else(|| mix(config.random_seed ^ key.0)),
            choice: request.choice,
            log_probs: request.log_probs.clone(),
            constraint: Constraint::None,
            namespace: request
                .namespace
                .as_deref()
                .map_or_else(Namespace::default, Namespace::new),
            priority,
        };
        match self.scheduler.admit(sequence) {
            Ok(id) => {
                self.keys.insert(key, id);
                self.clients.insert(
                    id,
                    Client {
                        key,
                        events,
                        arrived: self.started.elapsed(),
                    },
                );
            }
            Err(rejected) => {
                let failed = RequestFailed {
                    message: rejected.to_string(),
                };
                // The client may be gone already.
                let _ = events.send(TokenEvent::Failed(failed));
            }
        }
        self.left_inbox();
    }

    fn left_inbox(&mut self) {
        self.publish();
        self.shared.inbox.fetch_sub(1, Ordering::AcqRel);
        self.announce();
    }

    /// Makes room in a full queue for a newcomer of this priority, or says how the newcomer ends. Only where priorities
    /// count: otherwise the handle has kept a place.
    fn queue_full_for(&mut self, priority: Option<i32>) -> Option<TokenProgress> {
        let config = &self.shared.config;
        config.scheduler.order.priorities()?;
        let probes = self.shared.probes.load(Ordering::Acquire);
        if self.scheduler.stats().waiting < config.max_waiting.saturating_add(probes) {
            return None;
        }
        let Some(displaced) = self.scheduler.displaced_by(priority) else {
            return Some(TokenProgress {
                finish: Some(FinishReason::Abort(Abort::QueueFull)),
                ..TokenProgress::default()
            });
        };
        let reason = FinishReason::Abort(Abort::Displaced);
        let last = self.scheduler.cancel(displaced, reason);
        self.emit(last.into_iter().collect());
        None
    }

    fn emit(&mut self, progress: Vec<Progress>) {
        for step in progress {
            self.log.count_tokens(step.tokens.len());
            let Some(client) = self.clients.get(&step.sequence) else {
                continue;
            };
            let finished = step.finish.is_some();
            let queue = step
                .first_planned
                .unwrap_or_default()
                .saturating_sub(client.arrived);
            let event = TokenEvent::Progress(TokenProgress {
                tokens: step.tokens,
                log_probs: step.log_probs,
                prompt_log_probs: step.prompt_log_probs,
                cached_tokens: step.cached_tokens,
                retractions: step.retractions,
                queue_seconds: queue.as_secs_f64(),
                finish: step.finish,
            });
            // A closed receiver is followed by a cancel; nothing is lost.
            let _ = client.events.send(event);
            if finished {
                self.forget(step.sequence);
            }
        }
    }

    fn forget(&mut self, id: SequenceId) {
        if let Some(client) = self.clients.remove(&id) {
            self.keys.remove(&client.key);
        }
    }

    /// Tells who waits for idleness how many requests there are; steps still in flight count as one.
    fn announce(&self) {
        let unfinished = usize::from(!self.scheduler.is_idle());
        self.active.send_replace(self.clients.len().max(unfinished));
    }

    fn publish(&self) {
        let scheduler = self.scheduler.stats();
        self.shared
            .waiting
            .store(scheduler.waiting, Ordering::Release);
        let stats = EngineStats {
            generation_throughput: self.log.throughput(),
            idle_since: self.idle_since,
            captured: self.log.captured(),
            completed_steps: self.completed,
            scheduler,
        };
        *self
            .shared
            .stats
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = stats;
        self.announce();
    }
}

/// Spreads a counter over all bits.
fn mix(mut x: u64) -> u64 {
    x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    x ^ (x >> 31)
}
