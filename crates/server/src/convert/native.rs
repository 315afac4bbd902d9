use protocol::json::OneOrMany;
use protocol::native::{GenerateRequest, SamplingParams};
use serde_json::Value;

use super::refuse::{is_on, unless_absent};
pub(crate) use super::sampling::Rules;
use super::spread::{names, namespaces, priority, spread};
use super::{log_probs, sampling};
use crate::error::ApiError;
use crate::generation::{Delivery, Generation, Prompt, Sampling, Told};

/// What a `/generate` body asks for.
pub(crate) struct NativeBatch {
    pub(crate) generations: Vec<Generation>,
    /// The body had lists, so the answer is a list.
    pub(crate) is_list: bool,
    pub(crate) delivery: Delivery,
    /// Log-probabilities come with text.
    pub(crate) text_in_log_probs: bool,
    pub(crate) return_prompt_tokens: bool,
}

/// `preferred` are the operator's sampling parameters, used where a request says nothing at all.
pub(crate) fn batch(
    request: GenerateRequest,
    preferred: Option<&SamplingParams>,
    rules: Rules,
) -> Result<NativeBatch, ApiError> {
    refuse(&request)?;
    let (prompts, is_list) = prompts(request.text, request.input_ids)?;
    let count = prompts.len();
    let params = spread("sampling_params", request.sampling_params, count)?;
    let told = Told {
        in_metrics: request.log_metrics.unwrap_or(true),
        in_log: !request.no_logs.unwrap_or(false),
    };
    let mut rids = names(request.rid, count)?.into_iter();
    let mut spaces = namespaces(request.extra_key, request.cache_salt, count)?.into_iter();
    let wanted = spread("return_logprob", request.return_logprob, count)?;
    let starts = spread("logprob_start_len", request.logprob_start_len, count)?;
    let tops = spread("top_logprobs_num", request.top_logprobs_num, count)?;
    let mut chosen = spread("token_ids_logprob", request.token_ids_logprob, count)?;
    let mut generations = Vec::with_capacity(count);
    // Equal parameters are converted once: patterns take their time.
    let mut converted: Option<(SamplingParams, Sampling)> = None;
    for (index, (prompt, params)) in prompts.into_iter().zip(params).enumerate() {
        let params = params.or_else(|| preferred.cloned()).unwrap_or_default();
        let log_probs = if wanted[index].unwrap_or(false) {
            Some(log_probs::request(log_probs::Wanted {
                start: starts[index].unwrap_or(-1),
                top: tops[index].unwrap_or(0),
                token_ids: chosen[index].take().unwrap_or_default(),
            })?)
        } else {
            None
        };
        let sampling = match &converted {
            Some((given, sampling)) if *given == params => sampling.clone(),
            _ => {
                let sampling = sampling::native(params.clone(), rules)?;
                converted = Some((params, sampling.clone()));
                sampling
            }
        };
        generations.push(Generation {
            id: rids.next().unwrap_or_default(),
            prompt,
            sampling,
            log_probs,
            namespace: spaces.next().flatten(),
            priority: priority(request.priority),
            told,
        });
    }
    Ok(NativeBatch {
        generations,
        is_list,
        delivery: Delivery::wanted(request.stream),
        text_in_log_probs: request.return_text_in_logprobs.unwrap_or(false),
        return_prompt_tokens: request.return_prompt_token_ids.unwrap_or(false),
    })
}

fn refuse(request: &GenerateRequest) -> Result<(), ApiError> {
    let adapters = request
        .lora_path
        .clone()
        .map(OneOrMany::into_vec)
        .unwrap_or_default();
    unless_absent([
        ("input_embeds", is_on(request.input_embeds.as_ref())),
        ("image_data", is_on(request.image_data.as_ref())),
        ("video_data", is_on(request.video_data.as_ref())),
        ("audio_data", is_on(request.audio_data.as_ref())),
        ("lora_path", adapters.iter().flatten().next().is_some()),
        ("session_params", is_on(request.session_params.as_ref())),
        (
            "custom_logit_processor",
            is_on(request.custom_logit_processor.as_ref()),
        ),
        (
            "return_hidden_states",
            is_on(request.return_hidden_states.as_ref()),
        ),
        (
            "return_routed_experts",
            request.return_routed_experts == Some(true),
        ),
    ])
}

fn prompts(
    text: Option<OneOrMany<String>>,
    input_ids: Option<OneOrMany<Vec<i64>>>,
) -> Result<(Vec<Prompt>, bool), ApiError> {
    let tokens = |ids| log_probs::tokens("input_ids", ids).map(Prompt::Tokens);
    let (prompts, is_list) = match (text, input_ids) {
        (Some(_), Some(_)) => {
            return Err(ApiError::invalid(
                "Only one of text and input_ids should be provided.",
            ));
        }
        (None, None) => {
            let message = "Either text, input_ids or input_embeds should be provided.";
            return Err(ApiError::invalid(message));
        }
        (Some(OneOrMany::One(text)), None) => (vec![Prompt::Text(text)], false),
        (Some(OneOrMany::Many(texts)), None) => {
            (texts.into_iter().map(Prompt::Text).collect(), true)
        }
        (None, Some(OneOrMany::One(ids))) => (vec![tokens(ids)?], false),
        (None, Some(OneOrMany::Many(lists))) => (
            lists.into_iter().map(tokens).collect::<Result<_, _>>()?,
            true,
        ),
    };
    if prompts.is_empty() {
        return Err(ApiError::invalid("The batch has no requests."));
    }
    Ok((prompts, is_list))
}

/// The operator's sampling parameters, as `--preferred-sampling-params` has them.
pub(crate) fn preferred(value: Option<&Value>) -> Result<Option<SamplingParams>, ApiError> {
    let Some(value) = value.filter(|value| !value.is_null()) else {
        return Ok(None);
    };
    Ok(Some(protocol::json::read(value.to_string().as_bytes())?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_told_of_unless_they_ask_not_to_be() {
        let rules = Rules {
            vocabulary: 10,
            stream_interval: 1,
            has_text: true,
        };
        for (more, in_metrics, in_log) in [
            ("", true, true),
            (r#", "log_metrics": false"#, false, true),
            (r#", "no_logs": true"#, true, false),
            (r#", "log_metrics": true, "no_logs": false"#, true, true),
        ] {
            let body = format!(r#"{{"text": ["a", "b"]{more}}}"#);
            let request = protocol::json::read(body.as_bytes()).expect("a request");
            let batch = batch(request, None, rules).expect("a sound request");
            let expected = Told { in_metrics, in_log };
            assert!(batch.generations.iter().all(|one| one.told == expected));
        }
    }
}
