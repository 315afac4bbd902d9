//! A scheduler and a rank, step by step: a model is served without an engine.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use executor::{Executor as _, ExecutorConfig, LocalExecutor, Rank};
use kv::Namespace;
use models::LoadOptions;
use ops::Device;
use sampling::{LogProbRequest, SamplingParams, StopRules, TokenLogProbs};
use scheduler::{
    Constraint, Mix, NewSequence, Order, PageSize, Reuse, Scheduler, SchedulerConfig, SequenceId,
    StepPlan,
};

/// Tokens that a sequence may have.
const CONTEXT: usize = 128;

/// How a model is served.
pub struct Serving<'a> {
    /// Sequences that run at the same time; there are pages for all of them.
    pub rows: u32,
    /// Positions of a page.
    pub page_size: PageSize,
    /// Prompt tokens of a step.
    pub chunk: u32,
    /// Whether weights are kept folded too, where the device does that.
    pub fold: bool,
    /// Row counts of captured steps.
    pub graphs: &'a [usize],
}

/// What is asked of one sequence.
#[derive(Clone)]
pub struct Asked<'a> {
    /// Its tokens.
    pub prompt: &'a [u32],
    /// Tokens that it is continued by, greedily.
    pub new_tokens: u32,
    /// Log-probabilities besides.
    pub log_probs: Option<LogProbRequest>,
}

/// What came of it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Output {
    /// The new tokens.
    pub tokens: Vec<u32>,
    /// Theirs.
    pub log_probs: Vec<TokenLogProbs>,
    /// Those of the prompt.
    pub prompt_log_probs: Vec<TokenLogProbs>,
}

/// A model that is served.
pub struct Served {
    scheduler: Scheduler,
    executor: LocalExecutor,
}

impl Served {
    /// Loads a model onto a device and captures its steps.
    pub fn start(device: impl Device + 'static, model: &Path, serving: &Serving<'_>) -> Self {
        let page_size = serving.page_size.tokens();
        let scheduler = SchedulerConfig {
            pages: serving.rows * CONTEXT as u32 / page_size,
            page_size: serving.page_size,
            max_rows: serving.rows,
            context_length: CONTEXT as u32,
            chunk: serving.chunk,
            max_prefill_tokens: serving.chunk,
            max_step_scores: 1 << 20,
            run_ahead: 1,
            conservativeness: 0.0,
            order: Order::Arrival,
            mix: Mix::Mixed,
            reuse: Reuse::Off,
        };
        let config = ExecutorConfig {
            max_rows: serving.rows as usize,
            max_step_tokens: scheduler.max_step_tokens() as usize,
            pages: scheduler.pages as usize,
            page_size: page_size as usize,
            max_sequence_tokens: CONTEXT,
            max_step_scores: scheduler.max_step_scores as usize,
            run_ahead: 1,
            kv_dtype: device.info().kv,
        };
        let opened = models::open(model).expect("a readable model");
        let options = LoadOptions {
            max_positions: CONTEXT,
            fold: serving.fold,
        };
        let (spec, source) = (opened.spec.clone(), opened.checkpoint.weights());
        let model = models::load(spec, source, &device, options, &mut |_, _| ());
        let model = model.expect("a loadable model");
        let mut rank = Rank::new(Box::new(device), model, &config).expect("memory");
        rank.capture(serving.graphs, &mut |_| ())
            .expect("steps that run");
        Self {
            scheduler: Scheduler::new(scheduler),
            executor: LocalExecutor::start(rank).expect("a thread"),
        }
    }

    /// Runs all to their ends and gives what came of each; `each` is told every step when it has run.
    pub fn run(&mut self, asked: &[Asked<'_>], mut each: impl FnMut(StepPlan)) -> Vec<Output> {
        let ids: Vec<_> = asked.iter().map(|asked| self.admit(asked)).collect();
        let mut outputs = vec![Output::default(); asked.len()];
        while let Some(plan) = self.scheduler.plan(Duration::ZERO) {
            self.executor.submit(plan.clone()).expect("a live rank");
            let outcome = self.executor.next_outcome().expect("a live rank");
            each(plan);
            for progress in self.scheduler.commit(outcome, Duration::ZERO) {
                let place = ids.iter().position(|id| *id == progress.sequence);
                let output = &mut outputs[place.expect("a sequence of ours")];
                output.tokens.extend(progress.tokens);
                output.log_probs.extend(progress.log_probs);
                output.prompt_log_probs.extend(progress.prompt_log_probs);
            }
        }
        outputs
    }

    fn admit(&mut self, asked: &Asked<'_>) -> SequenceId {
        let params = SamplingParams::greedy(asked.new_tokens);
        let admitted = self.scheduler.admit(NewSequence {
            prompt: asked.prompt.into(),
            stop: Arc::new(StopRules::new(&params, &[])),
            params: Arc::new(params),
            seed: 0,
            choice: 0,
            log_probs: asked.log_probs.clone().map(Arc::new),
            constraint: Constraint::None,
            namespace: Namespace::default(),
            priority: None,
        });
        admitted.expect("a sequence that fits")
    }
}
