//! A model of some thousand weights on any device: a whole rank, and an engine over it.

use std::sync::Arc;

use engine::{EngineConfig, EngineHandle, EngineThread, GenerateRequest};
use executor::{ExecutorConfig, LocalExecutor, Rank};
use models::{DummyWeights, LoadOptions};
use ops::{Device, OpError};
use sampling::SamplingParams;
use scheduler::{Mix, Order, PageSize, Reuse, SchedulerConfig};
use tensor::DType;

const ROWS: usize = 4;
const CONTEXT: usize = 64;
pub(crate) const VOCABULARY: usize = 4096;
const MODEL: &str = r#"{"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 16,
    "intermediate_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "num_key_value_heads": 1,
    "vocab_size": 4096, "max_position_embeddings": 64, "rms_norm_eps": 1e-5, "rope_theta": 10000.0,
    "tie_word_embeddings": true}"#;

fn scheduler() -> SchedulerConfig {
    SchedulerConfig {
        pages: (ROWS * CONTEXT) as u32,
        page_size: PageSize::ONE,
        max_rows: ROWS as u32,
        context_length: CONTEXT as u32,
        chunk: 16,
        max_prefill_tokens: 32,
        max_step_scores: 4096,
        run_ahead: 2,
        conservativeness: 1.0,
        order: Order::Arrival,
        mix: Mix::Mixed,
        reuse: Reuse::Prefixes,
    }
}

fn limits() -> ExecutorConfig {
    let scheduler = scheduler();
    ExecutorConfig {
        max_rows: ROWS,
        max_step_tokens: scheduler.max_step_tokens() as usize,
        pages: scheduler.pages as usize,
        page_size: 1,
        max_sequence_tokens: CONTEXT,
        max_step_scores: scheduler.max_step_scores as usize,
        run_ahead: 2,
        kv_dtype: DType::F32,
    }
}

pub(crate) fn rank(device: impl Device + 'static) -> Result<Rank, OpError> {
    let spec = models::spec_from_config(MODEL.as_bytes()).expect("a whole description");
    let weights = DummyWeights::new(&spec);
    let options = LoadOptions {
        max_positions: CONTEXT,
        fold: false,
    };
    let model = models::load(spec, &weights, &device, options, &mut |_, _| ()).expect("a model");
    Rank::new(Box::new(device), model, &limits())
}

pub(crate) fn start(rank: Rank) -> (EngineHandle, EngineThread) {
    let executor = LocalExecutor::start(rank).expect("a thread");
    let config = EngineConfig {
        scheduler: scheduler(),
        run_ahead: 2,
        context_length: CONTEXT,
        vocabulary: VOCABULARY,
        end_tokens: Vec::new(),
        max_waiting: 64,
        priorities: engine::Priorities::default(),
        decode_log_interval: 40,
        largest_graph: 0,
        random_seed: 1,
        watchdog: None,
        floor: None,
    };
    engine::start(config, Box::new(executor)).expect("a thread")
}

pub(crate) fn request(prompt: &[u32], tokens: u32) -> GenerateRequest {
    GenerateRequest {
        prompt: prompt.into(),
        params: Arc::new(SamplingParams::greedy(tokens)),
        choice: 0,
        log_probs: None,
        namespace: None,
        priority: None,
    }
}
