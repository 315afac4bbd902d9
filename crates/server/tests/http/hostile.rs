//! Bodies that mean no good.

use serde_json::{Value, json};

use crate::harness::start;

/// Values that no field expects, and some that a few do.
fn odd_values() -> Vec<Value> {
    vec![
        json!(null),
        json!(true),
        json!(-1),
        json!(0),
        json!(1e308),
        json!(18_446_744_073_709_551_615_u64),
        json!(""),
        json!("\u{0}x"),
        json!("1"),
        json!("9".repeat(1000)),
        json!([]),
        json!([null]),
        json!([[1]]),
        json!({}),
        json!({"a": [{}]}),
    ]
}

#[tokio::test]
async fn no_value_of_any_field_breaks_the_server() {
    let server = start().await;
    let client = server.client();
    let native = json!({"text": "a", "sampling_params": {"max_new_tokens": 1}});
    let completion = json!({"prompt": "a", "max_tokens": 1});
    let chat = json!({"messages": [{"role": "user", "content": "a"}], "max_tokens": 1});
    let openai = "stream_options n stop stop_token_ids min_tokens temperature top_p top_k min_p \
                  frequency_penalty presence_penalty repetition_penalty logit_bias seed logprobs \
                  response_format lora_path rid extra_key priority max_tokens model";
    let cases = [
        (
            "/generate",
            native,
            "text input_ids input_embeds image_data sampling_params rid return_logprob \
             logprob_start_len top_logprobs_num token_ids_logprob return_text_in_logprobs \
             session_params lora_path priority extra_key cache_salt return_prompt_token_ids",
        ),
        ("/v1/completions", completion.clone(), openai),
        (
            "/v1/completions",
            completion,
            "prompt echo suffix best_of json_schema",
        ),
        ("/v1/chat/completions", chat.clone(), openai),
        (
            "/v1/chat/completions",
            chat,
            "messages top_logprobs tools tool_choice reasoning_effort separate_reasoning \
             chat_template_kwargs continue_final_message max_completion_tokens",
        ),
        ("/tokenize", json!({}), "prompt add_special_tokens"),
        ("/detokenize", json!({}), "tokens skip_special_tokens"),
        ("/abort_request", json!({"rid": "nobody"}), "rid abort_all"),
    ];
    for (path, base, fields) in cases {
        for field in fields.split_whitespace() {
            for value in odd_values() {
                let mut body = base.clone();
                body[field] = value;
                let answer = client.post(path, &body).await;
                assert!(
                    matches!(answer.status, 200 | 400),
                    "{path} {body}: {}",
                    answer.body
                );
            }
        }
    }
}

#[tokio::test]
async fn no_sampling_parameter_breaks_the_server() {
    let server = start().await;
    let client = server.client();
    let fields = "max_new_tokens min_new_tokens stop stop_token_ids stop_regex temperature top_p \
                  top_k min_p frequency_penalty presence_penalty repetition_penalty n ignore_eos \
                  skip_special_tokens no_stop_trim logit_bias sampling_seed stream_interval regex";
    for field in fields.split_whitespace() {
        for value in odd_values() {
            for stream in [false, true] {
                let params = json!({"max_new_tokens": 1, field: value});
                let body = json!({"text": "a", "sampling_params": params, "stream": stream});
                let answer = client.post("/generate", &body).await;
                assert!(
                    matches!(answer.status, 200 | 400),
                    "{body}: {}",
                    answer.body
                );
            }
        }
    }
}
