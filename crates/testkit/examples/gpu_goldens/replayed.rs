//! Whole steps of a served model, from tokens to tokens: replayed from graphs they must give what they give kernel by kernel.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use cuda::CudaDevice;
use executor::{Executor as _, ExecutorConfig, LocalExecutor, Rank};
use kv::Namespace;
use models::LoadOptions;
use ops::Device as _;
use sampling::{LogProbRequest, SamplingParams, StopRules, TokenLogProbs};
use scheduler::{
    Constraint, Mix, NewSequence, Order, PageSize, Reuse, Scheduler, SchedulerConfig, SequenceId,
};
use testkit::detour::{Detour, Detoured};
use testkit::golden::Golden;

const CONTEXT: usize = 128;
const ROWS: u32 = 5;
const PAGE: u32 = 16;
/// Row counts that are captured: all there are, so that no row is added to fill a step up.
const CAPTURED: [usize; ROWS as usize] = [1, 2, 3, 4, 5];

/// Tokens and their log-probabilities, where they were asked for.
#[derive(Clone, Default, PartialEq)]
struct Output {
    tokens: Vec<u32>,
    log_probs: Vec<TokenLogProbs>,
}

/// True when every sequence gives the same tokens with graphs as without, and the same log-probabilities to the bit; with how
/// many tokens there were.
pub(crate) fn check(device: &Arc<CudaDevice>, golden: &Golden) -> anyhow::Result<(bool, usize)> {
    let (mut same, mut count) = (true, 0);
    // Without log-probabilities steps leave tokens, with them logits.
    for log_probs in [false, true] {
        let eager = Served::start(device, golden, &[])?.run(golden, log_probs)?;
        let replayed = Served::start(device, golden, &CAPTURED)?.run(golden, log_probs)?;
        same &= eager == replayed;
        count += replayed.iter().map(|one| one.tokens.len()).sum::<usize>();
    }
    Ok((same, count))
}

/// A device that several ranks have, one after the other: ways to compute products are found once.
struct Shared(Arc<CudaDevice>);

impl Detour for Shared {
    type Inner = CudaDevice;

    fn inner(&self) -> &CudaDevice {
        &self.0
    }
}

struct Served {
    scheduler: Scheduler,
    executor: LocalExecutor,
}

impl Served {
    fn start(device: &Arc<CudaDevice>, golden: &Golden, graphs: &[usize]) -> anyhow::Result<Self> {
        let device = Detoured(Shared(Arc::clone(device)));
        let scheduler = SchedulerConfig {
            pages: 2 * ROWS * CONTEXT as u32 / PAGE,
            page_size: PageSize::new(PAGE).context("a page has a position")?,
            max_rows: ROWS,
            context_length: CONTEXT as u32,
            chunk: 32,
            max_prefill_tokens: 32,
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
            page_size: PAGE as usize,
            max_sequence_tokens: CONTEXT,
            run_ahead: 1,
            kv_dtype: device.info().kv,
        };
        let opened = models::open(&golden.model)?;
        let loaded = LoadOptions {
            max_positions: CONTEXT,
            fold: true,
        };
        let source = opened.checkpoint.weights();
        let model = models::load(opened.spec.clone(), source, &device, loaded, &mut |_, _| ())?;
        let mut rank = Rank::new(Box::new(device), model, &config)?;
        rank.capture(graphs, &mut |_| ())?;
        Ok(Self {
            scheduler: Scheduler::new(scheduler),
            executor: LocalExecutor::start(rank, &config)?,
        })
    }

    /// Beginnings of the prompt, one longer than the other, and as many tokens each that they do not end at once.
    fn run(&mut self, golden: &Golden, log_probs: bool) -> anyhow::Result<Vec<Output>> {
        let prompt = golden.prompt();
        let ids = (1..=ROWS)
            .map(|i| {
                let length = (prompt.len() * i as usize / ROWS as usize).max(1);
                self.admit(&prompt[..length], 8 + 4 * i, log_probs)
            })
            .collect::<anyhow::Result<Vec<_>>>()?;
        let mut outputs = vec![Output::default(); ids.len()];
        while let Some(plan) = self.scheduler.plan(Duration::ZERO) {
            self.executor.submit(plan)?;
            let outcome = self.executor.next_outcome()?;
            for progress in self.scheduler.commit(outcome, Duration::ZERO) {
                let place = ids.iter().position(|id| *id == progress.sequence);
                let output = &mut outputs[place.context("a sequence of ours")?];
                output.tokens.extend(progress.tokens);
                output.log_probs.extend(progress.log_probs);
            }
        }
        Ok(outputs)
    }

    fn admit(
        &mut self,
        prompt: &[u32],
        new_tokens: u32,
        log_probs: bool,
    ) -> anyhow::Result<SequenceId> {
        let params = SamplingParams::greedy(new_tokens);
        let admitted = self.scheduler.admit(NewSequence {
            prompt: prompt.into(),
            stop: Arc::new(StopRules::new(&params, &[])),
            params: Arc::new(params),
            seed: 0,
            choice: 0,
            log_probs: log_probs.then(|| Arc::new(LogProbRequest::default())),
            constraint: Constraint::None,
            namespace: Namespace::default(),
            priority: 0,
        });
        admitted.map_err(|refused| anyhow::anyhow!("{refused:?}"))
    }
}
