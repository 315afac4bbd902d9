use std::sync::Arc;

use ::sampling::LogProbRequest;
use protocol::json::OneOrMany;
use protocol::native::{GenerateRequest, SamplingParams};
use serde_json::Value;

use super::refuse::{is_on, unless_absent};
pub(crate) use super::sampling::Rules;
use super::spread::{Caller, Spread, names, namespaces, priority};
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
    caller: &Caller,
) -> Result<NativeBatch, ApiError> {
    refuse(&request)?;
    let (prompts, is_list) = prompts(request.text, request.input_ids)?;
    let count = prompts.len();
    let told = Told {
        in_metrics: request.log_metrics.unwrap_or(true),
        in_log: !request.no_logs.unwrap_or(false),
    };
    let names = names(request.rid, count)?;
    let spaces = namespaces(caller, request.extra_key, request.cache_salt, count)?;
    let params = Spread::new("sampling_params", request.sampling_params, count)?;
    let chosen = request.token_ids_logprob;
    log_probs::check_chosen(chosen.as_ref(), is_list, rules.vocabulary)?;
    let scores = Scores {
        wanted: Spread::new("return_logprob", request.return_logprob, count)?,
        starts: Spread::new("logprob_start_len", request.logprob_start_len, count)?,
        tops: Spread::new("top_logprobs_num", request.top_logprobs_num, count)?,
        chosen: Spread::new("token_ids_logprob", chosen, count)?,
    };
    let unsaid = preferred.cloned().unwrap_or_default();
    let (mut conversion, mut last_scores) = (Conversion::default(), LastScores::default());
    let mut generations = Vec::with_capacity(count);
    let requests = prompts.into_iter().zip(names.each).zip(spaces);
    for (index, ((prompt, id), namespace)) in requests.enumerate() {
        generations.push(Generation {
            id,
            batch: names.shared.clone(),
            prompt,
            sampling: conversion.of(params.get(index).unwrap_or(&unsaid), rules)?,
            log_probs: scores.of(index, &mut last_scores)?,
            namespace,
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

/// The last sampling parameters that were converted. Equal ones are not converted again: patterns take their time, and
/// lists their memory.
#[derive(Default)]
struct Conversion<'a> {
    last: Option<(&'a SamplingParams, Sampling)>,
}

impl<'a> Conversion<'a> {
    fn of(&mut self, params: &'a SamplingParams, rules: Rules) -> Result<Sampling, ApiError> {
        match &self.last {
            Some((last, sampling)) if std::ptr::eq(*last, params) || *last == params => {
                Ok(sampling.clone())
            }
            _ => {
                let sampling = sampling::native(params.clone(), rules)?;
                self.last = Some((params, sampling.clone()));
                Ok(sampling)
            }
        }
    }
}

/// What the requests of a batch want to know about probabilities.
struct Scores {
    wanted: Spread<bool>,
    starts: Spread<i64>,
    tops: Spread<i64>,
    chosen: Spread<Vec<i64>>,
}

/// The last such wish that was converted.
type LastScores<'a> = Option<((i64, i64, &'a [i64]), Arc<LogProbRequest>)>;

impl Scores {
    fn of<'a>(
        &'a self,
        index: usize,
        last: &mut LastScores<'a>,
    ) -> Result<Option<Arc<LogProbRequest>>, ApiError> {
        if !self.wanted.get(index).copied().unwrap_or(false) {
            return Ok(None);
        }
        let start = self.starts.get(index).copied().unwrap_or(-1);
        let top = self.tops.get(index).copied().unwrap_or(0);
        let chosen = self.chosen.get(index).map_or(&[][..], Vec::as_slice);
        if let Some(((last_start, last_top, last_chosen), asked)) = last
            && (*last_start, *last_top) == (start, top)
            && std::ptr::eq(*last_chosen, chosen)
        {
            return Ok(Some(Arc::clone(asked)));
        }
        let asked = log_probs::request(log_probs::Wanted {
            start,
            top,
            token_ids: log_probs::tokens("token_ids_logprob", chosen)?,
        })?;
        *last = Some(((start, top, chosen), Arc::clone(&asked)));
        Ok(Some(asked))
    }
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
    let tokens = |ids: Vec<i64>| log_probs::tokens("input_ids", &ids).map(Prompt::Tokens);
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
            longest_output: None,
        };
        for (more, in_metrics, in_log) in [
            ("", true, true),
            (r#", "log_metrics": false"#, false, true),
            (r#", "no_logs": true"#, true, false),
            (r#", "log_metrics": true, "no_logs": false"#, true, true),
        ] {
            let body = format!(r#"{{"text": ["a", "b"]{more}}}"#);
            let request = protocol::json::read(body.as_bytes()).expect("a request");
            let batch = batch(request, None, rules, &Caller::Anyone).expect("a sound request");
            let expected = Told { in_metrics, in_log };
            assert!(batch.generations.iter().all(|one| one.told == expected));
        }
    }
}
