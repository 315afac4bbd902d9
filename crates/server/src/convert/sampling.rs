use std::sync::Arc;

use protocol::json::OneOrMany;
use protocol::native;
use protocol::openai::Controls;
use sampling::{SamplingOptions, SamplingParams};
use text::{SamplingDefaults, StopPatterns};

use super::refuse::{is_constrained, is_on, unless_absent};
use crate::error::ApiError;
use crate::generation::{Sampling, TextOptions};

/// Most outputs per prompt.
const MAX_CHOICES: i64 = 4096;

/// Most stop strings of a request.
const MAX_STOPS: usize = 256;

/// Most bytes of a stop string.
const MAX_STOP_LENGTH: usize = 1024;

/// Most tokens that end an output besides the model's own.
const MAX_STOP_TOKENS: usize = 4096;

/// What the server adds to what requests say.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rules {
    pub(crate) vocabulary: usize,
    pub(crate) stream_interval: usize,
    /// Whether tokens become text here.
    pub(crate) has_text: bool,
    /// Most tokens that may be asked for; none where longer outputs are cut.
    pub(crate) longest_output: Option<usize>,
}

impl Rules {
    /// Refuses more tokens than any answer of a chat could have, in the words that clients look for.
    pub(super) fn check_max_completion_tokens(self, wanted: Option<i64>) -> Result<(), ApiError> {
        let too_large = |tokens: &i64| {
            let longest = self.longest_output;
            longest.is_some_and(|longest| usize::try_from(*tokens).is_ok_and(|all| all > longest))
        };
        match (wanted.filter(too_large), self.longest_output) {
            (Some(tokens), Some(longest)) => Err(ApiError::Invalid(format!(
                "max_completion_tokens is too large: {tokens}. This model supports at most {longest} completion \
                 tokens."
            ))),
            _ => Ok(()),
        }
    }

    fn sampling(
        self,
        options: &SamplingOptions,
        choices: Option<i64>,
        text: TextOptions,
        stream_interval: Option<i64>,
    ) -> Result<Sampling, ApiError> {
        let vocabulary = u32::try_from(self.vocabulary).unwrap_or(u32::MAX);
        let interval =
            stream_interval.map_or(self.stream_interval, |tokens| tokens.max(1) as usize);
        Ok(Sampling {
            params: Arc::new(SamplingParams::new(options, vocabulary)?),
            choices: choice_count(choices)?,
            text,
            stream_interval: interval,
        })
    }
}

/// What ends an output besides tokens.
struct Stops {
    strings: Arc<[String]>,
    patterns: Option<StopPatterns>,
}

impl Stops {
    /// Patterns that are plain text are stop strings: SGLang cuts the text of both.
    fn new(
        strings: Option<OneOrMany<String>>,
        patterns: Option<OneOrMany<String>>,
        rules: Rules,
    ) -> Result<Self, ApiError> {
        let mut strings = strings.map(OneOrMany::into_vec).unwrap_or_default();
        let patterns = patterns.map(OneOrMany::into_vec).unwrap_or_default();
        check_stop_strings(&strings)?;
        if !rules.has_text {
            let given = [("stop", &strings), ("stop_regex", &patterns)];
            if let Some((name, _)) = given.iter().find(|(_, given)| !given.is_empty()) {
                return Err(ApiError::Invalid(format!(
                    "{name} is unavailable when skip_tokenizer_init=True: there is no text to look in."
                )));
            }
        }
        let (plain, patterns) = StopPatterns::beside_plain(patterns)?;
        strings.extend(plain);
        Ok(Self {
            strings: strings.into(),
            patterns,
        })
    }
}

/// Every piece of an output is held against every stop string.
fn check_stop_strings(strings: &[String]) -> Result<(), ApiError> {
    if strings.len() > MAX_STOPS {
        return Err(ApiError::Invalid(format!(
            "stop: at most {MAX_STOPS} strings are taken, got {}; stop_regex says many in one",
            strings.len()
        )));
    }
    match strings.iter().find(|string| string.len() > MAX_STOP_LENGTH) {
        None => Ok(()),
        Some(long) => Err(ApiError::Invalid(format!(
            "stop: a string may have {MAX_STOP_LENGTH} bytes, got {}",
            long.len()
        ))),
    }
}

fn check_stop_tokens(tokens: Option<&Vec<i64>>) -> Result<(), ApiError> {
    match tokens.map_or(0, Vec::len) {
        count if count > MAX_STOP_TOKENS => Err(ApiError::Invalid(format!(
            "stop_token_ids: at most {MAX_STOP_TOKENS} are taken, got {count}"
        ))),
        _ => Ok(()),
    }
}

fn choice_count(choices: Option<i64>) -> Result<u32, ApiError> {
    match choices.unwrap_or(1) {
        count @ 1..=MAX_CHOICES => Ok(count as u32),
        count => Err(ApiError::Invalid(format!(
            "n must be in [1, {MAX_CHOICES}], got {count}."
        ))),
    }
}

/// The sampling parameters of the native API.
pub(super) fn native(wire: native::SamplingParams, rules: Rules) -> Result<Sampling, ApiError> {
    unless_absent([
        ("json_schema", is_on(wire.json_schema.as_ref())),
        ("regex", wire.regex.is_some()),
        ("ebnf", wire.ebnf.is_some()),
        ("structural_tag", is_on(wire.structural_tag.as_ref())),
    ])?;
    check_stop_tokens(wire.stop_token_ids.as_ref())?;
    let default = SamplingOptions::default();
    let options = SamplingOptions {
        max_new_tokens: wire
            .max_new_tokens
            .map_or(default.max_new_tokens, |limit| limit.0),
        min_new_tokens: wire.min_new_tokens.unwrap_or(default.min_new_tokens),
        temperature: wire.temperature.unwrap_or(default.temperature),
        top_p: wire.top_p.unwrap_or(default.top_p),
        top_k: wire.top_k.unwrap_or(default.top_k),
        min_p: wire.min_p.unwrap_or(default.min_p),
        frequency_penalty: wire.frequency_penalty.unwrap_or(default.frequency_penalty),
        presence_penalty: wire.presence_penalty.unwrap_or(default.presence_penalty),
        repetition_penalty: wire
            .repetition_penalty
            .unwrap_or(default.repetition_penalty),
        logit_bias: wire.logit_bias.unwrap_or_default().0,
        stop_token_ids: wire.stop_token_ids.unwrap_or_default(),
        ignore_eos: wire.ignore_eos.unwrap_or(default.ignore_eos),
        seed: wire.sampling_seed,
    };
    let stops = Stops::new(wire.stop, wire.stop_regex, rules)?;
    let text = TextOptions {
        stop: stops.strings,
        patterns: stops.patterns,
        keep_stop: wire.no_stop_trim.unwrap_or(false),
        skip_special: wire.skip_special_tokens.unwrap_or(true),
    };
    rules.sampling(&options, wire.n, text, wire.stream_interval)
}

/// The sampling parameters of the OpenAI API.
pub(super) fn openai(
    controls: &Controls,
    max_tokens: Option<i64>,
    defaults: &SamplingDefaults,
    rules: Rules,
) -> Result<Sampling, ApiError> {
    refuse_openai(controls)?;
    check_stop_tokens(controls.stop_token_ids.as_ref())?;
    if let Some(count) = max_tokens.filter(|count| *count <= 0) {
        return Err(ApiError::Invalid(format!(
            "max_tokens must be positive, got {count}."
        )));
    }
    let default = SamplingOptions::default();
    let (temperature, top_p) = (defaults.temperature, defaults.top_p);
    let repetition_penalty = controls.repetition_penalty.or(defaults.repetition_penalty);
    let options = SamplingOptions {
        max_new_tokens: max_tokens,
        min_new_tokens: controls.min_tokens.unwrap_or(default.min_new_tokens),
        temperature: controls
            .temperature
            .or(temperature)
            .unwrap_or(default.temperature),
        top_p: controls.top_p.or(top_p).unwrap_or(default.top_p),
        top_k: controls.top_k.or(defaults.top_k).unwrap_or(default.top_k),
        min_p: controls.min_p.or(defaults.min_p).unwrap_or(default.min_p),
        frequency_penalty: controls
            .frequency_penalty
            .unwrap_or(default.frequency_penalty),
        presence_penalty: controls
            .presence_penalty
            .unwrap_or(default.presence_penalty),
        repetition_penalty: repetition_penalty.unwrap_or(default.repetition_penalty),
        logit_bias: controls.logit_bias.clone().unwrap_or_default().0,
        stop_token_ids: controls.stop_token_ids.clone().unwrap_or_default(),
        ignore_eos: controls.ignore_eos.unwrap_or(default.ignore_eos),
        seed: controls.seed,
    };
    let stops = Stops::new(controls.stop.clone(), controls.stop_regex.clone(), rules)?;
    let text = TextOptions {
        stop: stops.strings,
        patterns: stops.patterns,
        keep_stop: controls.no_stop_trim.unwrap_or(false),
        skip_special: controls.skip_special_tokens.unwrap_or(true),
    };
    rules.sampling(&options, controls.n, text, None)
}

fn refuse_openai(controls: &Controls) -> Result<(), ApiError> {
    let adapter = controls
        .lora_path
        .clone()
        .map(OneOrMany::into_vec)
        .unwrap_or_default();
    unless_absent([
        ("json_schema", is_on(controls.json_schema.as_ref())),
        ("regex", controls.regex.is_some()),
        ("ebnf", controls.ebnf.is_some()),
        (
            "response_format",
            is_constrained(controls.response_format.as_ref()),
        ),
        ("lora_path", adapter.iter().flatten().next().is_some()),
        ("session_params", is_on(controls.session_params.as_ref())),
        (
            "custom_logit_processor",
            is_on(controls.custom_logit_processor.as_ref()),
        ),
        (
            "return_hidden_states",
            is_on(controls.return_hidden_states.as_ref()),
        ),
    ])
}
