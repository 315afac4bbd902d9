//! Descriptions of real models are understood or refused by name; hostile ones are refused.

use std::path::Path;

use models::{ModelSpec, Quantisation, RopeScaling, SpecError, spec_from_config};
use serde_json::{Value, json};

fn tiny() -> Value {
    json!({
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 32,
        "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4, "vocab_size": 131,
        "max_position_embeddings": 128, "rms_norm_eps": 1e-5,
    })
}

fn read(config: &Value) -> Result<ModelSpec, SpecError> {
    spec_from_config(config.to_string().as_bytes())
}

fn with(key: &str, value: Value) -> Value {
    let mut config = tiny();
    config[key] = value;
    config
}

/// One line about a model.
fn summary(spec: &ModelSpec) -> String {
    let tied = if spec.tied { "tied" } else { "untied" };
    format!(
        "{} L{} H{} F{} A{}/{} hd{} V{} ctx{} rope{} {tied} eos{:?} {:.2}B",
        spec.model_type,
        spec.layers.len(),
        spec.hidden,
        spec.feed_forward,
        spec.heads.query,
        spec.heads.kv,
        spec.heads.dim,
        spec.vocabulary,
        spec.context_length,
        spec.ropes[0].base,
        spec.end_tokens,
        spec.parameters() as f64 / 1e9,
    )
}

#[test]
fn configs_of_real_models_are_understood_or_refused_by_name() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data/configs");
    if !folder.is_dir() {
        println!("skipped: there is no folder of configs");
        return;
    }
    let supported =
        "supported are Gemma3ForCausalLM, LlamaForCausalLM, Qwen2ForCausalLM, Qwen3ForCausalLM";
    for (name, expected) in [
        (
            "Qwen--Qwen3-0.6B",
            "qwen3 L28 H1024 F3072 A16/8 hd128 V151936 ctx40960 rope1000000 tied eos[151645] 0.60B".to_owned(),
        ),
        (
            "Qwen--Qwen3-8B",
            "qwen3 L36 H4096 F12288 A32/8 hd128 V151936 ctx40960 rope1000000 untied eos[151645] 8.19B".to_owned(),
        ),
        (
            "meta-llama--Meta-Llama-3-8B-Instruct",
            "llama L32 H4096 F14336 A32/8 hd128 V128256 ctx8192 rope500000 untied eos[128009] 8.03B".to_owned(),
        ),
        (
            "meta-llama--Meta-Llama-3.1-8B",
            "llama L32 H4096 F14336 A32/8 hd128 V128256 ctx131072 rope500000 untied eos[128001] 8.03B".to_owned(),
        ),
        (
            "deepseek-ai--DeepSeek-R1-Distill-Qwen-1.5B",
            "qwen2 L28 H1536 F8960 A12/2 hd128 V151936 ctx131072 rope10000 untied eos[151643] 1.78B".to_owned(),
        ),
        (
            "Qwen--Qwen3-32B-FP8",
            "qwen3 L64 H5120 F25600 A64/8 hd128 V151936 ctx40960 rope1000000 untied eos[151645] 32.76B".to_owned(),
        ),
        ("openai--gpt-oss-20b", format!("architecture \"GptOssForCausalLM\" is not supported; {supported}")),
        ("Qwen--Qwen3-30B-A3B", format!("architecture \"Qwen3MoeForCausalLM\" is not supported; {supported}")),
        (
            "Qwen--Qwen2.5-VL-3B-Instruct",
            format!("architecture \"Qwen2_5_VLForConditionalGeneration\" is not supported; {supported}"),
        ),
    ] {
        let json = std::fs::read(folder.join(format!("{name}.config.json"))).expect("readable");
        let found = match spec_from_config(&json) {
            Ok(spec) => summary(&spec),
            Err(error) => error.to_string(),
        };
        assert_eq!(found, expected, "{name}");
    }
}

#[test]
fn quantised_descriptions_are_understood_as_several_tools_write_them() {
    let compressed = |weights: Value| {
        json!({ "quant_method": "compressed-tensors", "format": "float-quantized",
        "ignore": ["lm_head"], "config_groups": { "group_0": { "weights": weights } } })
    };
    let float8 = |block, skipped: &[&str]| Quantisation::Float8 {
        block,
        skipped: skipped.iter().map(|&name| name.to_owned()).collect(),
    };
    for (config, expected) in [
        (
            json!({ "quant_method": "fp8", "fmt": "e4m3", "weight_block_size": [128, 64], "modules_to_not_convert": null }),
            float8(Some([128, 64]), &[]),
        ),
        (
            json!({ "quant_method": "fp8", "activation_scheme": "static", "ignored_layers": ["lm_head"] }),
            float8(None, &["lm_head"]),
        ),
        (
            compressed(json!({ "num_bits": 8, "type": "float", "strategy": "channel" })),
            float8(None, &["lm_head"]),
        ),
        (
            compressed(
                json!({ "num_bits": 8, "type": "float", "strategy": "block", "block_structure": [128, 128] }),
            ),
            float8(Some([128, 128]), &["lm_head"]),
        ),
    ] {
        let spec = read(&with("quantization_config", config)).expect("a good config");
        assert_eq!(spec.quantisation, expected);
    }
    for (config, message) in [
        (
            json!({ "quant_method": "awq" }),
            "quantization_config \"awq\" is not",
        ),
        (
            json!({ "quant_method": "fp8", "fmt": "e5m2" }),
            "quantization_config \"fp8 e5m2\" is not supported",
        ),
        (
            json!({ "quant_method": "fp8", "weight_block_size": [0, 128] }),
            "weight_block_size \"[0, 128]\" is not supported",
        ),
        (
            compressed(json!({ "num_bits": 4, "type": "int" })),
            "quantization_config \"{",
        ),
    ] {
        let refused = read(&with("quantization_config", config)).expect_err("not ours");
        assert!(refused.to_string().starts_with(message), "{refused}");
    }
}

#[test]
fn rope_settings_are_found_where_any_version_of_the_library_put_them() {
    let llama3 = json!({
        "rope_type": "llama3", "type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
        "original_max_position_embeddings": 8192, "rope_theta": 5e5,
    });
    let scaling = RopeScaling::Llama3 {
        factor: 8.0,
        low: 1.0,
        high: 4.0,
        original: 8192.0,
    };
    for key in ["rope_scaling", "rope_parameters"] {
        let spec = read(&with(key, llama3.clone())).expect("a good config");
        assert_eq!(
            (spec.ropes[0].base, &spec.ropes[0].scaling),
            (5e5, &scaling)
        );
    }
    for (value, expected) in [
        (Value::Null, RopeScaling::None),
        (json!({ "rope_type": "default" }), RopeScaling::None),
        (
            json!({ "type": "linear", "factor": 2 }),
            RopeScaling::Linear { factor: 2.0 },
        ),
    ] {
        let mut config = with("rope_scaling", value);
        config["rope_theta"] = json!(1e6);
        let spec = read(&config).expect("a good config");
        assert_eq!(
            (spec.ropes[0].base, spec.ropes[0].scaling.clone()),
            (1e6, expected)
        );
    }
}

#[test]
fn descriptions_that_cannot_be_served_are_refused_with_the_reason() {
    let mut no_name = with("model_type", json!("mamba"));
    no_name["architectures"] = Value::Null;
    for (config, message) in [
        (
            no_name,
            "architecture \"mamba\" is not supported; supported are",
        ),
        (
            with("hidden_size", json!(0)),
            "hidden size is 0: must be from 1 to 262144",
        ),
        (
            with("num_hidden_layers", json!(u32::MAX)),
            "layer count is 4294967295: must be from 1 to 4096",
        ),
        (
            with("max_position_embeddings", json!(1)),
            "context length is 1: must have room for a token of the prompt and one of the answer",
        ),
        (
            with("num_attention_heads", json!(0)),
            "query heads is 0: must be from 1 to 4096",
        ),
        (
            with("num_key_value_heads", json!(3)),
            "query heads is 4: must be a multiple of the key heads",
        ),
        (
            with("head_dim", json!(5)),
            "rotated elements is 5: must be even and at most the head size",
        ),
        (
            with("rms_norm_eps", json!(-1.0)),
            "norm epsilon is -1, which cannot be computed with",
        ),
        (
            with("rope_theta", json!(0.0)),
            "rope base is 0, which cannot be computed with",
        ),
        (
            with("hidden_act", json!("relu")),
            "hidden_act \"relu\" is not supported",
        ),
        (
            with("use_sliding_window", json!(true)),
            "use_sliding_window \"true\" is not supported",
        ),
        (
            with("rope_scaling", json!({ "type": "yarn", "factor": 4 })),
            "rope scaling \"yarn\" is not supported",
        ),
        (
            with("rope_scaling", json!({ "type": "linear" })),
            "factor is missing",
        ),
        (
            with("vocab_size", json!("many")),
            "config.json: invalid type: string \"many\", expected usize",
        ),
        (
            with("vocab_size", json!(-4)),
            "config.json: invalid value: integer `-4`, expected usize",
        ),
        (json!([]), "config.json: "),
    ] {
        let error = read(&config).expect_err("should be refused").to_string();
        assert!(error.starts_with(message), "{error}");
    }
}

#[test]
fn no_number_in_a_config_makes_the_reader_panic() {
    let numbers = [
        json!(0),
        json!(1),
        json!(2),
        json!(-1),
        json!(u64::MAX),
        json!(1e308),
        json!(1e-308),
        json!(4096),
        json!(262_144),
        json!([1, 2]),
        json!({}),
        json!("x"),
        Value::Null,
        json!(true),
    ];
    let mut config = tiny();
    config["num_key_value_heads"] = json!(4);
    config["head_dim"] = json!(8);
    config["partial_rotary_factor"] = json!(1);
    config["rope_scaling"] = json!({ "type": "linear", "factor": 1 });
    let keys: Vec<String> = config
        .as_object()
        .expect("an object")
        .keys()
        .cloned()
        .collect();
    let mut understood = 0;
    for (first, second) in keys
        .iter()
        .flat_map(|first| keys.iter().map(move |second| (first, second)))
    {
        for (a, b) in numbers
            .iter()
            .flat_map(|a| numbers.iter().map(move |b| (a, b)))
        {
            let mut config = config.clone();
            config[first] = a.clone();
            config[second] = b.clone();
            if let Ok(spec) = read(&config) {
                understood += 1;
                assert!(spec.parameters() > 0 && spec.kv_bytes_per_token(tensor::DType::F32) > 0);
            }
        }
    }
    assert!(understood > 100);
}
