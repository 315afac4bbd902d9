//! Any interleaving of admit, cancel, plan, commit, retract, finish and evict.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
    time::Duration,
};

use kv::{Namespace, PageSize, Token};
use sampling::{
    Abort, FinishReason, LogProbRequest, SamplingOptions, SamplingParams, StopRules, TokenLogProbs,
};
use scheduler::{
    Constraint, Mix, NewSequence, Order, PriorityRules, Progress, Reuse, Scheduler,
    SchedulerConfig, SequenceId, StepPlan,
};

use crate::{
    device::{Device, VOCABULARY, fold, next_token, score},
    watch::Watch,
};

/// A small generator: tests must not depend on anybody's random numbers.
struct Random(u64);

impl Random {
    fn new(seed: u64) -> Self {
        Self(fold(seed, 77))
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }

    fn pick<T: Clone>(&mut self, of: &[T]) -> T {
        of[self.below(of.len() as u64) as usize].clone()
    }
}

/// What a sequence asked for and what it has got.
struct Asked {
    new: NewSequence,
    tokens: Vec<Token>,
    log_probs: Vec<TokenLogProbs>,
    prompt_log_probs: Vec<TokenLogProbs>,
    finish: Option<FinishReason>,
    retractions: u32,
}

impl Asked {
    /// The tokens and the end that the fake model gives this prompt, whatever else is served.
    fn expected(&self) -> (Vec<Token>, FinishReason) {
        let mut prefix = self
            .new
            .prompt
            .iter()
            .fold(0, |prefix, &token| fold(prefix, token));
        let most = self
            .new
            .stop
            .max_new_tokens()
            .expect("every test sequence has a limit");
        let mut tokens = Vec::new();
        while (tokens.len() as u32) < most {
            let token = next_token(prefix, self.new.seed, self.new.choice);
            let index = tokens.len() as u32;
            tokens.push(token);
            prefix = fold(prefix, token);
            if let Some(finish) = self.new.stop.check(index, token, most) {
                return (tokens, finish);
            }
        }
        (tokens, FinishReason::Length)
    }

    fn expected_prompt_log_probs(&self) -> Vec<TokenLogProbs> {
        let Some(start) = self.new.log_probs.as_ref().and_then(|wanted| wanted.start) else {
            return Vec::new();
        };
        let mut prefix = 0;
        let mut expected = Vec::new();
        for (position, &token) in self.new.prompt.iter().enumerate() {
            if position as u32 > start {
                expected.push(score(token, prefix));
            }
            prefix = fold(prefix, token);
        }
        expected
    }
}

struct World {
    scheduler: Scheduler,
    device: Device,
    watch: Watch,
    random: Random,
    submitted: VecDeque<StepPlan>,
    asked: BTreeMap<SequenceId, Asked>,
    now: Duration,
    copies: u64,
}

impl World {
    fn new(config: SchedulerConfig, seed: u64) -> Self {
        Self {
            device: Device::new(&config),
            watch: Watch::new(config.page_size),
            scheduler: Scheduler::new(config),
            random: Random::new(seed),
            submitted: VecDeque::new(),
            asked: BTreeMap::new(),
            now: Duration::ZERO,
            copies: 0,
        }
    }

    fn any_sequence(&mut self) -> NewSequence {
        let random = &mut self.random;
        let limit = u64::from(self.scheduler.config().max_sequence_tokens());
        // families of prompts with common beginnings
        let family = random.below(3) as Token;
        // short prompts with long outputs are what the admission estimate gets wrong
        let is_tight = self.scheduler.config().conservativeness == 0.0;
        let longest = if is_tight { 6 } else { 70 };
        let len = 1 + random.below(limit.min(longest));
        let fork = random.below(len + 1);
        let variant = random.below(3) as Token;
        let token = |i: u64| {
            if i < fork {
                family
            } else {
                family + variant + (i % 3) as Token
            }
        };
        let prompt: Arc<[Token]> = (0..len).map(token).collect();
        let most = if is_tight { 100 } else { 40 };
        let options = SamplingOptions {
            max_new_tokens: Some(random.below((limit - len).min(most) + 1) as i64),
            ignore_eos: random.below(3) > 0,
            ..SamplingOptions::default()
        };
        let params = SamplingParams::new(&options, VOCABULARY as u32).expect("in range");
        let starts = [None, None, Some(0), Some(random.below(len) as u32)];
        let wanted = LogProbRequest {
            start: random.pick(&starts),
            top: random.below(2) as u32,
            ..LogProbRequest::default()
        };
        NewSequence {
            prompt,
            stop: Arc::new(StopRules::new(&params, &[0])),
            params: Arc::new(params),
            seed: random.below(2),
            choice: random.below(2) as u32,
            log_probs: (random.below(4) == 0).then(|| Arc::new(wanted)),
            constraint: random.pick(&[Constraint::None, Constraint::Grammar]),
            namespace: Namespace::new(random.pick(&["", "", "other"])),
            priority: random.pick(&[None, Some(0), Some(5), Some(20)]),
        }
    }

    fn admit(&mut self) {
        let new = self.any_sequence();
        let id = self.scheduler.admit(new.clone()).expect("fits");
        let asked = Asked {
            new,
            tokens: Vec::new(),
            log_probs: Vec::new(),
            prompt_log_probs: Vec::new(),
            finish: None,
            retractions: 0,
        };
        assert!(self.asked.insert(id, asked).is_none());
    }

    fn cancel(&mut self) {
        if self.asked.is_empty() {
            return;
        }
        let ids: Vec<_> = self.asked.keys().copied().collect();
        let id = self.random.pick(&ids);
        let reason = FinishReason::Abort(Abort::Cancelled);
        let was_running = self.asked[&id].finish.is_none();
        let progress = self.scheduler.cancel(id, reason);
        assert_eq!(progress.is_some(), was_running, "{id:?} ends once");
        if let Some(progress) = progress {
            self.note(progress);
        }
    }

    /// Plans one step, if there is one.
    fn plan(&mut self) -> bool {
        self.now += Duration::from_millis(1);
        let plan = self.scheduler.plan(self.now);
        let is_some = plan.is_some();
        if let Some(plan) = plan {
            self.watch.submitted(&plan);
            self.copies += plan.copies.len() as u64;
            self.submitted.push_back(plan);
        }
        is_some
    }

    /// Runs and commits the oldest step, if there is one.
    fn commit(&mut self) -> bool {
        let Some(plan) = self.submitted.pop_front() else {
            return false;
        };
        let outcome = self.device.run(&plan);
        self.watch.committed();
        for progress in self.scheduler.commit(outcome, self.now) {
            self.note(progress);
        }
        true
    }

    fn note(&mut self, progress: Progress) {
        let asked = self
            .asked
            .get_mut(&progress.sequence)
            .expect("it was admitted");
        assert_eq!(asked.finish, None, "nothing follows the end");
        asked.tokens.extend(&progress.tokens);
        asked.log_probs.extend(progress.log_probs);
        asked.prompt_log_probs.extend(progress.prompt_log_probs);
        assert_eq!(progress.output_tokens as usize, asked.tokens.len());
        asked.finish = progress.finish;
        asked.retractions = progress.retractions;
    }

    fn any_operation(&mut self) {
        match self.random.below(20) {
            0..3 => self.admit(),
            3 => self.cancel(),
            4..12 => drop(self.plan()),
            _ => drop(self.commit()),
        }
        self.scheduler.check_integrity().expect("intact");
    }

    /// Serves everything to its end, planning as far ahead as allowed.
    fn drain(&mut self) {
        let mut steps = 0;
        while !self.scheduler.is_idle() {
            while self.plan() {
                steps += 1;
            }
            self.commit();
            assert!(steps < 200_000, "the world comes to rest");
        }
        self.scheduler.check_integrity().expect("intact");
    }

    fn check_end(&mut self) {
        let stats = self.scheduler.stats();
        assert_eq!((stats.used_tokens, stats.running, stats.waiting), (0, 0, 0));
        assert_eq!(stats.finished + stats.cancelled, stats.admitted);
        for (id, asked) in &self.asked {
            let (tokens, finish) = asked.expected();
            let ended = asked.finish.as_ref().expect("everything ends");
            if matches!(ended, FinishReason::Abort(_)) {
                assert!(tokens.starts_with(&asked.tokens), "{id:?}");
                continue;
            }
            assert_eq!((&asked.tokens, ended), (&tokens, &finish), "{id:?}");
            assert_eq!(
                asked.prompt_log_probs,
                asked.expected_prompt_log_probs(),
                "{id:?}"
            );
            let scored = if asked.new.log_probs.is_some() {
                tokens.len()
            } else {
                0
            };
            assert_eq!(asked.log_probs.len(), scored, "{id:?}");
        }
        self.scheduler.flush().expect("idle");
        self.scheduler.check_integrity().expect("intact");
        assert_eq!(self.scheduler.stats().evictable_tokens, 0);
        // rows that were released last are closed by the next plan
        assert!(self.device.open_rows() <= self.scheduler.config().max_rows as usize);
    }
}

fn any_config(random: &mut Random, run_ahead: u32) -> SchedulerConfig {
    let page_size = random.pick(&[1, 1, 2, 4, 16]);
    let tokens = 24 + random.below(200) as u32;
    SchedulerConfig {
        pages: (tokens / page_size).max(2),
        page_size: PageSize::new(page_size).expect("not 0"),
        max_rows: 1 + random.below(12) as u32,
        context_length: 4096,
        chunk: random.pick(&[1, 5, 16, 64, u32::MAX]),
        max_prefill_tokens: random.pick(&[8, 32, 128]),
        max_step_scores: random.pick(&[3, 20, u32::MAX]),
        run_ahead,
        conservativeness: random.pick(&[0.0, 0.0, 0.3, 1.0]),
        order: random.pick(&[
            Order::Arrival,
            Order::LongestPrefix,
            Order::LongestOutput,
            Order::Priority(PriorityRules::default()),
            Order::Priority(PriorityRules {
                preemption_threshold: Some(10),
                retract_least_important: true,
                ..PriorityRules::default()
            }),
            Order::Priority(PriorityRules {
                low_values_first: true,
                preemption_threshold: Some(0),
                ..PriorityRules::default()
            }),
        ]),
        mix: random.pick(&[Mix::Mixed, Mix::PrefillFirst]),
        reuse: random.pick(&[Reuse::Prefixes, Reuse::Prefixes, Reuse::Off]),
    }
}

/// Random worlds at one depth of run-ahead; returns how often things were retracted, evicted,
/// cached, overshot and copied.
fn serve_worlds(run_ahead: u32, worlds: u64, operations: u32) -> [u64; 5] {
    let mut counts = [0; 5];
    for seed in 0..worlds {
        let config = any_config(&mut Random::new(seed), run_ahead);
        let mut world = World::new(config, seed);
        for _ in 0..operations {
            world.any_operation();
        }
        world.drain();
        world.check_end();
        let stats = world.scheduler.stats();
        let of_world = [
            stats.retracted,
            stats.evicted_tokens,
            stats.cached_tokens,
            stats.overshoot_tokens,
            world.copies,
        ];
        counts = std::array::from_fn(|i| counts[i] + of_world[i]);
    }
    counts
}

#[test]
fn without_run_ahead_every_row_sees_its_own_history_and_nothing_leaks() {
    let counts = serve_worlds(1, 100, 350);
    assert!(
        counts.iter().all(|&count| count > 50),
        "the worlds are not tight enough: {counts:?}"
    );
}

#[test]
fn two_steps_ahead_every_row_sees_its_own_history_and_nothing_leaks() {
    let counts = serve_worlds(2, 100, 350);
    assert!(
        counts.iter().all(|&count| count > 50),
        "the worlds are not tight enough: {counts:?}"
    );
}

#[test]
fn four_steps_ahead_every_row_sees_its_own_history_and_nothing_leaks() {
    let counts = serve_worlds(4, 100, 350);
    assert!(
        counts.iter().all(|&count| count > 50),
        "the worlds are not tight enough: {counts:?}"
    );
}
