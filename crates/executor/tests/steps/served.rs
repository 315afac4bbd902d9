//! A scheduler and a rank, step by step.

use std::sync::Arc;
use std::time::Duration;

use cpu::{Activations, CpuDevice, CpuOptions, KvPrecision};
use executor::{Executor as _, ExecutorConfig, LocalExecutor, Rank};
use kv::Namespace;
use models::LoadOptions;
use ops::Device as _;
use sampling::{LogProbRequest, SamplingParams, StopRules, TokenLogProbs};
use scheduler::{
    Constraint, Mix, NewSequence, Order, PageSize, Reuse, Scheduler, SchedulerConfig, StepPlan,
};
use testkit::golden::Golden;
use testkit::recorded::{Log, Ran, recorded};

const CONTEXT: usize = 128;
const ROWS: u32 = 4;

/// What is asked of one sequence.
#[derive(Clone)]
pub(crate) struct Asked<'a> {
    pub(crate) prompt: &'a [u32],
    pub(crate) new_tokens: u32,
    pub(crate) log_probs: Option<LogProbRequest>,
}

/// What came of it.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Output {
    pub(crate) tokens: Vec<u32>,
    pub(crate) log_probs: Vec<TokenLogProbs>,
    pub(crate) prompt_log_probs: Vec<TokenLogProbs>,
}

/// A step as it was planned and as it ran.
pub(crate) struct Stepped {
    pub(crate) plan: StepPlan,
    pub(crate) ran: Vec<Ran>,
}

/// A rank on the CPU with exact activations, and a scheduler of chunks of so many tokens.
pub(crate) struct Served {
    scheduler: Scheduler,
    executor: LocalExecutor,
    log: Log,
    /// What the captures of graphs ran.
    pub(crate) captured: Vec<Ran>,
}

impl Served {
    pub(crate) fn start(golden: &Golden, chunk: u32, graphs: &[usize]) -> Self {
        let (device, log) = recorded(CpuDevice::new(&CpuOptions {
            activations: Activations::Exact,
            kv: KvPrecision::F32,
            ..CpuOptions::default()
        }));
        let scheduler = SchedulerConfig {
            pages: 4 * CONTEXT as u32,
            page_size: PageSize::ONE,
            max_rows: ROWS,
            context_length: CONTEXT as u32,
            chunk,
            max_prefill_tokens: chunk,
            run_ahead: 1,
            conservativeness: 0.0,
            order: Order::Arrival,
            mix: Mix::Mixed,
            reuse: Reuse::Off,
        };
        let config = ExecutorConfig {
            max_rows: ROWS as usize,
            max_step_tokens: scheduler.max_step_tokens() as usize,
            pages: scheduler.pages as usize,
            page_size: 1,
            max_sequence_tokens: CONTEXT,
            run_ahead: 1,
            kv_dtype: device.info().kv,
        };
        let opened = models::open(&golden.model).expect("a readable model");
        let options = LoadOptions {
            max_positions: CONTEXT,
            fold: false,
        };
        let source = opened.checkpoint.weights();
        let model = models::load(
            opened.spec.clone(),
            source,
            &device,
            options,
            &mut |_, _| (),
        )
        .expect("a loadable model");
        let mut rank = Rank::new(Box::new(device), model, &config).expect("memory");
        rank.capture(graphs, &mut |_| ()).expect("steps that run");
        Self {
            scheduler: Scheduler::new(scheduler),
            executor: LocalExecutor::start(rank, &config).expect("a thread"),
            captured: log.take(),
            log,
        }
    }

    /// Runs all to their ends; gives what came of each, and every step.
    pub(crate) fn run(&mut self, asked: &[Asked<'_>]) -> (Vec<Output>, Vec<Stepped>) {
        let ids: Vec<_> = asked.iter().map(|asked| self.admit(asked)).collect();
        let mut outputs = vec![Output::default(); asked.len()];
        let mut steps = Vec::new();
        while let Some(plan) = self.scheduler.plan(Duration::ZERO) {
            self.executor.submit(plan.clone()).expect("a live rank");
            let outcome = self.executor.next_outcome().expect("a live rank");
            let ran = self.log.take();
            steps.push(Stepped { plan, ran });
            for progress in self.scheduler.commit(outcome, Duration::ZERO) {
                let place = ids.iter().position(|id| *id == progress.sequence);
                let output = &mut outputs[place.expect("a sequence of ours")];
                output.tokens.extend(progress.tokens);
                output.log_probs.extend(progress.log_probs);
                output.prompt_log_probs.extend(progress.prompt_log_probs);
            }
        }
        (outputs, steps)
    }

    fn admit(&mut self, asked: &Asked<'_>) -> scheduler::SequenceId {
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
            priority: 0,
        });
        admitted.expect("a sequence that fits")
    }
}
