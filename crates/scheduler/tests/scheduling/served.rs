//! A scheduler and a device, driven by hand.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use kv::{Namespace, PageSize, Token};
use sampling::{SamplingOptions, SamplingParams, StopRules};
use scheduler::{
    Constraint, Mix, NewSequence, Order, Progress, Reuse, RowPlan, Sample, Scheduler,
    SchedulerConfig, SequenceId, StepPlan,
};

use crate::device::{Device, VOCABULARY};

pub(crate) fn config() -> SchedulerConfig {
    SchedulerConfig {
        pages: 1000,
        page_size: PageSize::ONE,
        max_rows: 8,
        context_length: 1000,
        chunk: 256,
        max_prefill_tokens: 1000,
        max_step_scores: 1 << 20,
        run_ahead: 2,
        conservativeness: 1.0,
        order: Order::Arrival,
        mix: Mix::Mixed,
        reuse: Reuse::Prefixes,
    }
}

/// A sequence that ends by its length only.
pub(crate) fn sequence(
    prompt: impl IntoIterator<Item = Token>,
    max_new_tokens: u32,
) -> NewSequence {
    let options = SamplingOptions {
        max_new_tokens: Some(i64::from(max_new_tokens)),
        ignore_eos: true,
        ..SamplingOptions::default()
    };
    let params = SamplingParams::new(&options, VOCABULARY as u32).expect("in range");
    NewSequence {
        prompt: prompt.into_iter().collect(),
        stop: Arc::new(StopRules::new(&params, &[])),
        params: Arc::new(params),
        seed: 0,
        choice: 0,
        log_probs: None,
        constraint: Constraint::None,
        namespace: Namespace::default(),
        priority: None,
    }
}

/// Tokens that no other prompt with another number begins with.
pub(crate) fn prompt(number: Token, len: u32) -> impl Iterator<Item = Token> {
    (0..len).map(move |i| number * 10_000 + i)
}

/// A scheduler and a device, driven by hand.
pub(crate) struct Served {
    pub(crate) scheduler: Scheduler,
    device: Device,
    submitted: VecDeque<StepPlan>,
}

impl Served {
    pub(crate) fn new(config: SchedulerConfig) -> Self {
        let device = Device::new(&config);
        Self {
            scheduler: Scheduler::new(config),
            device,
            submitted: VecDeque::new(),
        }
    }

    pub(crate) fn admit(&mut self, new: NewSequence) -> SequenceId {
        self.scheduler.admit(new).expect("it fits")
    }

    pub(crate) fn plan(&mut self) -> Option<StepPlan> {
        let plan = self.scheduler.plan(Duration::ZERO);
        self.submitted.extend(plan.clone());
        plan
    }

    pub(crate) fn commit(&mut self) -> Vec<Progress> {
        let plan = self.submitted.pop_front().expect("a step is in flight");
        let outcome = self.device.run(&plan);
        let progress = self.scheduler.commit(outcome, Duration::ZERO);
        self.scheduler.check_integrity().expect("intact");
        progress
    }

    /// One step at a time.
    pub(crate) fn step(&mut self) -> (StepPlan, Vec<Progress>) {
        let plan = self.plan().expect("there is something to do");
        (plan, self.commit())
    }

    /// Serves until nothing is left; returns the plans and all progress.
    pub(crate) fn drain(&mut self) -> (Vec<StepPlan>, Vec<Progress>) {
        let (mut plans, mut progress) = (Vec::new(), Vec::new());
        while !self.scheduler.is_idle() {
            while let Some(plan) = self.plan() {
                plans.push(plan);
            }
            progress.extend(self.commit());
        }
        (plans, progress)
    }
}

/// Rows of a plan as (row, first position, tokens, whether it samples).
pub(crate) fn shape(plan: &StepPlan) -> Vec<(u32, u32, u32, bool)> {
    let row = |row: &RowPlan| (row.row.0, row.start, row.tokens(), row.sample != Sample::No);
    plan.rows.iter().map(row).collect()
}

pub(crate) fn finished(progress: &[Progress]) -> Vec<SequenceId> {
    let ended = progress.iter().filter(|progress| progress.finish.is_some());
    ended.map(|progress| progress.sequence).collect()
}
