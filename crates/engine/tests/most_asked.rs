//! The most that requests may ask for, all at once: nobody is refused, nobody disturbs others, and nothing ends.

mod tiny;

use std::sync::Arc;

use cpu::{Activations, CpuDevice, CpuOptions, KvPrecision};
use engine::{EngineHandle, EngineThread, GenerateRequest, TokenEvent, TokenProgress, TokenStream};
use sampling::LogProbRequest;

use crate::tiny::request;

const MOST: u32 = executor::MAX_SCORES as u32;

fn start() -> (EngineHandle, EngineThread) {
    let device = CpuDevice::new(&CpuOptions {
        activations: Activations::Exact,
        kv: KvPrecision::F32,
        ..CpuOptions::default()
    });
    tiny::start(tiny::rank(device).expect("memory"))
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
