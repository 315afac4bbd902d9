//! Whole steps of a served model, from tokens to tokens: replayed from graphs they must give what they give kernel by kernel.

use std::sync::Arc;

use cuda::CudaDevice;
use sampling::LogProbRequest;
use scheduler::PageSize;
use testkit::detour::{Detour, Detoured};
use testkit::golden::Golden;
use testkit::served::{Asked, Output, Served, Serving};

const ROWS: u32 = 5;
const PAGE: u32 = 16;
/// Row counts that are captured: all there are, so that no row is added to fill a step up.
const CAPTURED: [usize; ROWS as usize] = [1, 2, 3, 4, 5];

/// True when every sequence gives the same tokens with graphs as without, and the same log-probabilities to the bit; with how
/// many tokens there were.
pub(crate) fn check(device: &Arc<CudaDevice>, golden: &Golden) -> (bool, usize) {
    let (mut same, mut count) = (true, 0);
    // Without log-probabilities steps leave tokens, with them logits.
    for log_probs in [None, Some(LogProbRequest::default())] {
        let eager = run(device, golden, &[], log_probs.as_ref());
        let replayed = run(device, golden, &CAPTURED, log_probs.as_ref());
        same &= eager == replayed;
        count += replayed.iter().map(|one| one.tokens.len()).sum::<usize>();
    }
    (same, count)
}

/// A device that several ranks have, one after the other: ways to compute products are found once.
struct Shared(Arc<CudaDevice>);

impl Detour for Shared {
    type Inner = CudaDevice;

    fn inner(&self) -> &CudaDevice {
        &self.0
    }
}

/// Beginnings of the prompt, one longer than the other, and more tokens for each than for the one before: rows end one by one.
fn run(
    device: &Arc<CudaDevice>,
    golden: &Golden,
    graphs: &[usize],
    log_probs: Option<&LogProbRequest>,
) -> Vec<Output> {
    let serving = Serving {
        rows: ROWS,
        page_size: PageSize::new(PAGE).expect("a page has a position"),
        chunk: 32,
        fold: true,
        graphs,
    };
    let prompt = golden.prompt();
    let asked: Vec<Asked<'_>> = (1..=ROWS)
        .map(|i| Asked {
            prompt: &prompt[..(prompt.len() * i as usize / ROWS as usize).max(1)],
            new_tokens: 8 + 4 * i,
            log_probs: log_probs.cloned(),
        })
        .collect();
    let device = Detoured(Shared(Arc::clone(device)));
    Served::start(device, &golden.model, &serving).run(&asked, |_| ())
}
