//! The real model through the whole engine, against figures that the reference library computed in fp32.

use std::sync::Arc;

use cpu::{Activations, CpuDevice, CpuOptions, KvPrecision};
use engine::{EngineConfig, EngineHandle, EngineThread, GenerateRequest, TokenEvent};
use executor::{ExecutorConfig, LocalExecutor, Rank};
use models::LoadOptions;
use ops::Device;
use sampling::{LogProbRequest, SamplingParams};
use scheduler::{Mix, Order, PageSize, Reuse, SchedulerConfig};
use serde_json::Value;

const CONTEXT: usize = 512;

fn start(
    activations: Activations,
    kv: KvPrecision,
    chunk: u32,
) -> Option<(EngineHandle, EngineThread)> {
    let path = testkit::material::smollm2()?;
    let source = checkpoint::gguf::GgufSource::open(&path).expect("a readable file");
    let spec = models::spec_from_gguf(&source.metadata(), &source).expect("a known model");
    let device = CpuDevice::new(&CpuOptions {
        activations,
        kv,
        ..CpuOptions::default()
    });
    let end_tokens = spec.end_tokens.clone();
    let vocabulary = spec.vocabulary;
    let options = LoadOptions {
        max_positions: CONTEXT,
        fold: false,
    };
    let model = models::load(spec, &source, &device, options, &mut |_, _| ()).expect("a model");
    let scheduler = SchedulerConfig {
        pages: 4 * CONTEXT as u32,
        page_size: PageSize::ONE,
        max_rows: 40,
        context_length: CONTEXT as u32,
        chunk,
        max_prefill_tokens: 256,
        max_step_scores: 1 << 20,
        run_ahead: 2,
        conservativeness: 1.0,
        order: Order::Arrival,
        mix: Mix::Mixed,
        reuse: Reuse::Off,
    };
    let config = ExecutorConfig {
        max_rows: 40,
        max_step_tokens: scheduler.max_step_tokens() as usize,
        pages: scheduler.pages as usize,
        page_size: 1,
        max_sequence_tokens: CONTEXT,
        max_step_scores: scheduler.max_step_scores as usize,
        run_ahead: 2,
        kv_dtype: device.info().kv,
    };
    let rank = Rank::new(Box::new(device), model, &config).expect("memory");
    let executor = LocalExecutor::start(rank).expect("a thread");
    let engine = EngineConfig {
        scheduler,
        run_ahead: 2,
        context_length: CONTEXT,
        vocabulary,
        end_tokens,
        max_waiting: 4096,
        priorities: engine::Priorities::default(),
        decode_log_interval: 40,
        largest_graph: 0,
        random_seed: 1,
        watchdog: None,
        floor: None,
    };
    Some(engine::start(engine, Box::new(executor)).expect("a thread"))
}

struct Reference {
    ids: Vec<u32>,
    prompt_log_probs: Vec<f32>,
    greedy: Vec<u32>,
    greedy_log_probs: Vec<f32>,
    margins: Vec<f32>,
}

fn references() -> Option<Vec<Reference>> {
    let path = testkit::material::shared("data/smollm2/oracle.json")?;
    let json: Value =
        serde_json::from_slice(&std::fs::read(path).expect("readable")).expect("JSON");
    let list = json["gguf_q4_1_dequant_fp32"].as_array().expect("a list");
    let words = |value: &Value| {
        value
            .as_array()
            .expect("a list")
            .iter()
            .map(|x| x.as_u64().expect("an id") as u32)
            .collect()
    };
    let floats = |value: &Value| {
        value
            .as_array()
            .expect("a list")
            .iter()
            .map(|x| x.as_f64().expect("a number") as f32)
            .collect()
    };
    let reference = |case: &Value| Reference {
        ids: words(&case["ids"]),
        prompt_log_probs: floats(&case["prompt_logprobs"]),
        greedy: words(&case["greedy"]),
        greedy_log_probs: floats(&case["greedy_logprobs"]),
        margins: floats(&case["margin"]),
    };
    Some(list.iter().map(reference).collect())
}

struct Run {
    tokens: Vec<u32>,
    log_probs: Vec<f32>,
    prompt_log_probs: Vec<f32>,
}

async fn greedy(engine: &EngineHandle, prompt: &[u32], tokens: u32) -> Run {
    let request = GenerateRequest {
        prompt: prompt.into(),
        params: Arc::new(SamplingParams::greedy(tokens)),
        choice: 0,
        log_probs: Some(Arc::new(LogProbRequest {
            start: Some(0),
            top: 2,
            token_ids: Vec::new(),
        })),
        namespace: None,
        priority: None,
    };
    let mut stream = engine.generate(request).expect("accepted");
    let mut run = Run {
        tokens: Vec::new(),
        log_probs: Vec::new(),
        prompt_log_probs: Vec::new(),
    };
    while let Some(event) = stream.next().await {
        let TokenEvent::Progress(progress) = event else {
            panic!("{event:?}")
        };
        run.tokens.extend(progress.tokens);
        run.log_probs
            .extend(progress.log_probs.iter().map(|scored| scored.log_prob));
        run.prompt_log_probs.extend(
            progress
                .prompt_log_probs
                .iter()
                .map(|scored| scored.log_prob),
        );
    }
    run
}

fn largest_difference(ours: &[f32], theirs: &[f32]) -> f32 {
    assert_eq!(ours.len(), theirs.len());
    ours.iter()
        .zip(theirs)
        .map(|(a, b)| (a - b).abs())
        .fold(0.0, f32::max)
}

#[tokio::test]
async fn exact_activations_equal_the_reference_throughout() {
    let Some(references) = references() else {
        return;
    };
    let Some((engine, _thread)) = start(Activations::Exact, KvPrecision::F32, 64) else {
        return;
    };
    for (case, reference) in references.iter().enumerate() {
        let run = greedy(&engine, &reference.ids, reference.greedy.len() as u32).await;
        let prompt = largest_difference(&run.prompt_log_probs, &reference.prompt_log_probs);
        assert!(
            prompt < 2e-3,
            "case {case}: prompt log-probabilities differ by {prompt}"
        );
        assert_eq!(run.tokens, reference.greedy, "case {case}");
        let output = largest_difference(&run.log_probs, &reference.greedy_log_probs);
        assert!(
            output < 2e-3,
            "case {case}: output log-probabilities differ by {output}"
        );
    }
}

#[tokio::test]
async fn integer_activations_stay_near_the_reference() {
    const NATS: f32 = 0.15;
    let Some(references) = references() else {
        return;
    };
    let Some((engine, _thread)) = start(Activations::Int16, KvPrecision::F16, 64) else {
        return;
    };
    for (case, reference) in references.iter().enumerate() {
        let run = greedy(&engine, &reference.ids, reference.greedy.len() as u32).await;
        let prompt = largest_difference(&run.prompt_log_probs, &reference.prompt_log_probs);
        assert!(
            prompt < NATS,
            "case {case}: prompt log-probabilities differ by {prompt}"
        );
        for (place, margin) in reference.margins.iter().enumerate() {
            if run.tokens[place] != reference.greedy[place] {
                assert!(
                    *margin < NATS,
                    "case {case}: token {place} differs where the margin is {margin}"
                );
                break;
            }
        }
    }
}

#[tokio::test]
async fn greedy_tokens_are_the_same_alone_in_a_batch_and_in_any_chunks() {
    let Some(references) = references() else {
        return;
    };
    let Some((engine, _thread)) = start(Activations::Int16, KvPrecision::F16, 64) else {
        return;
    };
    let mut alone = Vec::new();
    for reference in &references {
        alone.push(greedy(&engine, &reference.ids, 24).await.tokens);
    }
    let Some((chunked, _other)) = start(Activations::Int16, KvPrecision::F16, 7) else {
        return;
    };
    let together: Vec<_> = (0..32)
        .map(|i| {
            let (engine, case) = (chunked.clone(), i % references.len());
            let ids = references[case].ids.clone();
            tokio::spawn(async move { (case, greedy(&engine, &ids, 24).await.tokens) })
        })
        .collect();
    for task in together {
        let (case, tokens) = task.await.expect("no panic");
        assert_eq!(tokens, alone[case], "case {case}");
    }
}
