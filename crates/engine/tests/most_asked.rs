//! The most that requests may ask for, all at once: nobody is refused, nobody disturbs others, and nothing ends.

mod tiny;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use cpu::{Activations, CpuDevice, CpuOptions, KvPrecision};
use engine::{EngineHandle, EngineThread, GenerateRequest, TokenEvent, TokenProgress, TokenStream};
use ops::{Device, DeviceError, Readback, Staging};
use sampling::{LogProbRequest, SamplingOptions, SamplingParams};
use tensor::Buffer;
use testkit::detour::{Detour, Detoured};

use crate::tiny::{VOCABULARY, request};

const MOST: u32 = executor::MAX_SCORES as u32;

/// A device that has no memory left once it serves.
struct Taken {
    inner: CpuDevice,
    serves: Arc<AtomicBool>,
}

impl Taken {
    fn unless_serving(&self, wanted: usize) -> Result<(), DeviceError> {
        if !self.serves.load(Ordering::Acquire) {
            return Ok(());
        }
        Err(DeviceError::OutOfMemory {
            device: "the device".into(),
            what: "what a step needs",
            wanted,
            free: 0,
        })
    }
}

impl Detour for Taken {
    type Inner = CpuDevice;

    fn inner(&self) -> &CpuDevice {
        &self.inner
    }
    fn allocate(&self, bytes: usize, what: &'static str) -> Result<Buffer, DeviceError> {
        self.unless_serving(bytes)?;
        self.inner.allocate(bytes, what)
    }
    fn staging(&self, bytes: usize) -> Result<Box<dyn Staging>, DeviceError> {
        self.unless_serving(bytes)?;
        self.inner.staging(bytes)
    }
    fn readback(&self, bytes: usize) -> Result<Box<dyn Readback>, DeviceError> {
        self.unless_serving(bytes)?;
        self.inner.readback(bytes)
    }
}

fn start() -> (EngineHandle, EngineThread) {
    let inner = CpuDevice::new(&CpuOptions {
        activations: Activations::Exact,
        kv: KvPrecision::F32,
        ..CpuOptions::default()
    });
    let serves = Arc::new(AtomicBool::new(false));
    let device = Detoured(Taken {
        inner,
        serves: Arc::clone(&serves),
    });
    let started = tiny::start(tiny::rank(device).expect("memory"));
    serves.store(true, Ordering::Release);
    started
}

/// The `top` likeliest tokens and `named` others of every output, and of the prompt from `start` on.
fn scored(prompt: &[u32], start: Option<u32>, top: u32, named: u32) -> GenerateRequest {
    let asked = LogProbRequest {
        start,
        top,
        token_ids: (0..named).collect(),
    };
    GenerateRequest {
        log_probs: Some(Arc::new(asked)),
        ..request(prompt, 20)
    }
}

async fn collect(mut stream: TokenStream) -> TokenProgress {
    let mut all = TokenProgress::default();
    while let Some(event) = stream.next().await {
        let TokenEvent::Progress(progress) = event else {
            panic!("{event:?}")
        };
        all.tokens.extend(progress.tokens);
        all.log_probs.extend(progress.log_probs);
        all.prompt_log_probs.extend(progress.prompt_log_probs);
    }
    all
}

/// What came of each request beside all others.
async fn together(engine: &EngineHandle, requests: &[GenerateRequest]) -> Vec<TokenProgress> {
    let ask = |request: &GenerateRequest| engine.generate(request.clone()).expect("accepted");
    let streams: Vec<_> = requests.iter().map(ask).collect();
    let mut all = Vec::new();
    for stream in streams {
        all.push(collect(stream).await);
    }
    all
}

/// What came of each request with nobody else there.
async fn alone(engine: &EngineHandle, requests: &[GenerateRequest]) -> Vec<TokenProgress> {
    let mut all = Vec::new();
    for request in requests {
        all.extend(together(engine, std::slice::from_ref(request)).await);
    }
    all
}

#[tokio::test]
async fn one_who_wants_all_the_likeliest_tokens_and_one_who_names_as_many_are_served_in_one_step() {
    let (engine, thread) = start();
    let requests = [
        scored(&[1, 2, 3], None, MOST, 0),
        scored(&[4, 5], None, 0, MOST),
        scored(&[6, 7, 8], Some(0), MOST - 1, 1),
        scored(&[9, 10], Some(0), 1, MOST - 1),
    ];
    let found = together(&engine, &requests).await;
    let asked = [(512, 0), (0, 512), (511, 1), (1, 511)];
    for (found, asked) in found.iter().zip(asked) {
        assert_eq!((found.tokens.len(), found.log_probs.len()), (20, 20));
        for scores in found.log_probs.iter().chain(&found.prompt_log_probs) {
            assert_eq!((scores.top.len(), scores.chosen.len()), asked);
        }
    }
    assert!(found == alone(&engine, &requests).await);
    thread.stop().expect("a healthy end");
}

#[tokio::test]
async fn every_logit_of_every_row_may_be_biased() {
    let (engine, thread) = start();
    let wanted = [1, 2000, 4000, 4095];
    let towards = |wanted: i64| {
        let bias = |token| (token, if token == wanted { 1000.0 } else { -1000.0 });
        let options = SamplingOptions {
            max_new_tokens: Some(20),
            logit_bias: (0..VOCABULARY as i64).map(bias).collect(),
            ..SamplingOptions::default()
        };
        GenerateRequest {
            params: Arc::new(SamplingParams::new(&options, VOCABULARY as u32).expect("in range")),
            ..request(&[1, 2, 3], 20)
        }
    };
    let found = together(&engine, &wanted.map(towards)).await;
    for (found, wanted) in found.iter().zip(wanted) {
        assert_eq!(found.tokens, [wanted as u32; 20]);
    }
    thread.stop().expect("a healthy end");
}

#[tokio::test]
async fn whole_prompts_are_scored_with_as_much_as_may_be_asked() {
    let (engine, thread) = start();
    let prompt: Vec<u32> = (0..40).map(|i| 97 * i).collect();
    let asked = [(MOST, 0), (0, MOST), (MOST / 2, MOST / 2), (0, 0)];
    let requests = asked.map(|(top, named)| scored(&prompt, Some(0), top, named));
    let found = together(&engine, &requests).await;
    let own = |found: &TokenProgress| -> Vec<_> {
        let scores = found.prompt_log_probs.iter();
        scores
            .map(|scores| (scores.token, scores.log_prob))
            .collect()
    };
    // the last is scored in the chunks that there would be anyway
    let expected = own(&found[3]);
    assert_eq!(expected.len(), prompt.len() - 1);
    for (found, (top, named)) in found.iter().zip(asked) {
        assert_eq!(own(found), expected);
        for scores in &found.prompt_log_probs {
            let widths = (scores.top.len() as u32, scores.chosen.len() as u32);
            assert_eq!(widths, (top, named));
        }
    }
    assert!(found == alone(&engine, &requests).await);
    thread.stop().expect("a healthy end");
}
