use protocol::json::OneOrMany;
use protocol::openai::{self, CompletionRequest};
use text::SamplingDefaults;

use super::log_probs;
use super::refuse::unless_absent;
use super::sampling::{self, Rules};
use super::spread::{Caller, names, namespaces, priority};
use crate::error::ApiError;
use crate::generation::{Generation, Prompt, Told};

/// Tokens generated when the request does not say.
const DEFAULT_MAX_TOKENS: i64 = 16;

/// What prompts are asked for, and which of them the answer repeats.
pub(crate) struct CompletionBatch {
    pub(crate) generations: Vec<Generation>,
    /// The prompts, when the answer repeats them.
    pub(crate) echo: Option<Vec<Prompt>>,
    pub(crate) log_probs: bool,
}

pub(crate) fn batch(
    request: &mut CompletionRequest,
    rules: Rules,
    caller: &Caller,
) -> Result<CompletionBatch, ApiError> {
    let suffix = request.suffix.as_deref().unwrap_or_default();
    unless_absent([("suffix", !suffix.is_empty())])?;
    let prompts = prompts(request.prompt.take())?;
    let count = prompts.len();
    let echo = request.echo.unwrap_or(false);
    let controls = &mut request.controls;
    let names = names(controls.rid.take(), count)?;
    let (extra_key, cache_salt) = (controls.extra_key.take(), controls.cache_salt.take());
    let spaces = namespaces(caller, extra_key, cache_salt, count)?;
    let max_tokens = request.max_tokens.unwrap_or(DEFAULT_MAX_TOKENS);
    let defaults = SamplingDefaults::default();
    let sampling = sampling::openai(controls, Some(max_tokens), &defaults, rules)?;
    let log_probs = match request.logprobs {
        None => None,
        Some(top) => Some(log_probs::request(log_probs::Wanted {
            start: if echo { 0 } else { -1 },
            top,
            token_ids: Vec::new(),
        })?),
    };
    let echo = echo.then(|| prompts.clone());
    let generations = prompts.into_iter().zip(names.each).zip(spaces);
    let generations = generations.map(|((prompt, id), namespace)| Generation {
        id,
        batch: names.shared.clone(),
        prompt,
        sampling: sampling.clone(),
        log_probs: log_probs.clone(),
        namespace,
        priority: priority(controls.priority),
        told: Told::default(),
    });
    let generations = generations.collect();
    Ok(CompletionBatch {
        generations,
        echo,
        log_probs: log_probs.is_some(),
    })
}

fn prompts(prompt: Option<OneOrMany<openai::Prompt>>) -> Result<Vec<Prompt>, ApiError> {
    let prompts = prompt
        .ok_or_else(|| ApiError::invalid("prompt: field required"))?
        .into_vec();
    if prompts.iter().all(openai::Prompt::is_empty) {
        return Err(ApiError::invalid("Prompt cannot be empty"));
    }
    let convert = |prompt| match prompt {
        openai::Prompt::Text(text) => Ok(Prompt::Text(text)),
        openai::Prompt::Tokens(ids) => log_probs::tokens("prompt", &ids).map(Prompt::Tokens),
    };
    prompts.into_iter().map(convert).collect()
}
