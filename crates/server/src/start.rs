use std::sync::Arc;

use engine::GenerateRequest;
use sampling::{SamplingParams, Token};
use text::Tokenizer;

use crate::clock::{Moment, SequenceClock};
use crate::config::RequestLog;
use crate::decoder::Decoder;
use crate::error::ApiError;
use crate::generation::{Delivery, Generation, MAX_OUTPUTS, Prompt};
use crate::outputs::{Facts, Outputs};
use crate::running::{Claim, Taken};
use crate::sequence::{Counts, Reporting, Sequence};
use crate::state::{Shared, State};
use crate::work::Abandoned;

/// Sends everything a request wants to the engine: all of it, or nothing.
///
/// Outputs come in the order of the prompts, those of one prompt side by side.
pub(crate) async fn start(
    state: &Shared,
    mut generations: Vec<Generation>,
    delivery: Delivery,
    received: Moment,
) -> Result<Outputs, ApiError> {
    let visit = state.admission.enter()?;
    let wanted: usize = generations
        .iter()
        .map(|wanted| wanted.sampling.choices as usize)
        .sum();
    if wanted > MAX_OUTPUTS {
        return Err(ApiError::Invalid(format!(
            "a request may ask for {MAX_OUTPUTS} outputs, got {wanted}."
        )));
    }
    let claim = claim(state, &generations)?;
    let prompts = encode(state, &mut generations).await?;
    let mut sequences = Vec::with_capacity(wanted);
    for (generation, prompt) in generations.into_iter().zip(prompts) {
        begin(
            state,
            &generation,
            prompt,
            delivery,
            received,
            &mut sequences,
        )?;
    }
    Ok(Outputs::new(sequences, visit, claim))
}

/// Takes the names by which a request and its outputs can be ended.
fn claim(state: &State, generations: &[Generation]) -> Result<Claim, ApiError> {
    let mut names = Vec::new();
    names.extend(generations.first().and_then(|first| first.batch.clone()));
    for generation in generations {
        names.push(Arc::from(generation.id.as_str()));
        let choices = generation.sampling.choices;
        if choices > 1 {
            names.extend((0..choices).map(|choice| output_name(&generation.id, choice).into()));
        }
    }
    state.running.claim(names).map_err(|Taken(name)| {
        ApiError::Invalid(format!(
            "Duplicate request ID detected: {name:?} runs already. Choose another rid, or leave it out."
        ))
    })
}

/// The name of one of several outputs of a request.
fn output_name(request: &str, choice: u32) -> String {
    format!("{request}_{choice}")
}

fn begin(
    state: &State,
    generation: &Generation,
    prompt: Vec<Token>,
    delivery: Delivery,
    received: Moment,
    sequences: &mut Vec<(Facts, Sequence)>,
) -> Result<(), ApiError> {
    let (prompt, params) = fit(state, prompt, &generation.sampling.params);
    let prompt: Arc<[Token]> = prompt.into();
    let tokenizer = state.text.as_ref().map(|text| &text.tokenizer);
    let log = if generation.told.in_log {
        state.config.request_log
    } else {
        RequestLog::Off
    };
    let id: Arc<str> = generation.id.as_str().into();
    for choice in 0..generation.sampling.choices {
        let stream = state.engine.generate(GenerateRequest {
            prompt: Arc::clone(&prompt),
            params: Arc::clone(&params),
            choice,
            log_probs: generation.log_probs.clone(),
            namespace: generation.namespace.clone(),
            priority: generation.priority,
        })?;
        let interval = match delivery {
            Delivery::Whole => usize::MAX,
            Delivery::Pieces => generation.sampling.stream_interval,
        };
        // By the name of the request all its outputs can be ended, by their own each.
        let mut names = vec![Arc::clone(&id)];
        if generation.sampling.choices > 1 {
            names.insert(0, output_name(&generation.id, choice).into());
        }
        let facts = Facts {
            id: Arc::clone(&id),
            name: Arc::clone(&names[0]),
            prompt: Arc::clone(&prompt),
            log_probs: generation.log_probs.clone(),
        };
        names.extend(generation.batch.clone());
        let canceller = stream.canceller();
        let cancel = move || canceller.cancel();
        let sequence = Sequence {
            stream: Some(stream),
            ticket: state.running.enter(names, cancel),
            decoder: Decoder::new(tokenizer, &generation.sampling.text, &prompt),
            clock: SequenceClock::new(received),
            interval,
            counts: Counts {
                prompt_tokens: prompt.len(),
                ..Counts::default()
            },
            reporting: Reporting {
                metrics: Arc::clone(&state.metrics),
                counted: generation.told.in_metrics,
                detailed_timing: state.config.metrics,
                log,
                silent: !generation.told.in_log,
            },
        };
        sequences.push((facts, sequence));
    }
    if log == RequestLog::Summary {
        tracing::info!(
            "Receive: rid={}, input_tokens={}, max_new_tokens={}, n={}",
            generation.id.escape_debug(),
            prompt.len(),
            params
                .max_new_tokens
                .map_or_else(|| "None".to_owned(), |tokens| tokens.to_string()),
            generation.sampling.choices,
        );
    }
    Ok(())
}

/// With automatic truncation, cuts the prompt and the output to what fits.
fn fit(
    state: &State,
    mut prompt: Vec<Token>,
    params: &Arc<SamplingParams>,
) -> (Vec<Token>, Arc<SamplingParams>) {
    let room = state.engine.config().scheduler.max_sequence_tokens() as usize;
    let room = room.min(state.context_length() - 1);
    if !state.config.auto_truncate {
        return (prompt, Arc::clone(params));
    }
    if prompt.len() >= room {
        tracing::warn!(
            "a prompt of {} tokens was cut to {}",
            prompt.len(),
            room - 1
        );
        prompt.truncate(room - 1);
    }
    let left = (room - prompt.len()) as u32;
    if params.max_new_tokens.is_none_or(|wanted| wanted <= left) {
        return (prompt, Arc::clone(params));
    }
    tracing::warn!(
        "an output of {:?} tokens was cut to {left}",
        params.max_new_tokens
    );
    let mut params = SamplingParams::clone(params);
    params.max_new_tokens = Some(left);
    params.min_new_tokens = params.min_new_tokens.min(left);
    (prompt, Arc::new(params))
}

/// The tokens of all prompts. Texts are taken out of the generations: nobody needs them again.
async fn encode(
    state: &Shared,
    generations: &mut [Generation],
) -> Result<Vec<Vec<Token>>, ApiError> {
    let empty = Prompt::Tokens(Vec::new());
    let prompts: Vec<Prompt> = generations
        .iter_mut()
        .map(|generation| std::mem::replace(&mut generation.prompt, empty.clone()))
        .collect();
    let encoder = Encoder {
        tokenizer: state.text.as_ref().map(|text| text.tokenizer.clone()),
        room: Room::of(state),
    };
    let characters: usize = prompts.iter().map(Prompt::text_len).sum();
    let encode_all = move |abandoned: &Abandoned| {
        let encode = |prompt| {
            abandoned.check()?;
            encoder.encode(prompt)
        };
        prompts.into_iter().map(encode).collect()
    };
    state.work.on(characters, encode_all).await
}

/// Makes tokens of prompts.
struct Encoder {
    tokenizer: Option<Tokenizer>,
    /// Texts beyond are refused.
    room: Option<Room>,
}

impl Encoder {
    fn encode(&self, prompt: Prompt) -> Result<Vec<Token>, ApiError> {
        let (text, add_special) = match prompt {
            Prompt::Tokens(tokens) => return Ok(tokens),
            Prompt::Text(text) => (text, true),
            Prompt::Rendered(text) => (text, false),
        };
        let tokenizer = self.tokenizer.as_ref();
        let tokenizer = tokenizer.ok_or_else(|| ApiError::invalid(NO_TOKENIZER))?;
        if let Some(room) = self.room {
            room.refuse_endless(&text, tokenizer)?;
        }
        Ok(tokenizer.encode(&text, add_special)?)
    }
}

/// How many tokens a sequence may have.
#[derive(Clone, Copy)]
struct Room {
    context: usize,
    capacity: usize,
}

impl Room {
    /// There is no limit where prompts are cut to what fits.
    fn of(state: &State) -> Option<Self> {
        (!state.config.auto_truncate).then(|| Self {
            context: state.context_length(),
            capacity: state.engine.config().scheduler.max_sequence_tokens() as usize,
        })
    }

    /// Refuses a text that cannot fit however it is encoded: encoding megabytes to find that out takes seconds.
    fn refuse_endless(self, text: &str, tokenizer: &Tokenizer) -> Result<(), ApiError> {
        let Self { context, capacity } = self;
        if text.len() < context.min(capacity) {
            return Ok(());
        }
        let least = tokenizer.least_tokens(text);
        if least >= context {
            let limit = context;
            return Err(ApiError::TextTooLong { least, limit });
        }
        if least > capacity {
            return Err(ApiError::TextNeverFits { least, capacity });
        }
        Ok(())
    }
}

/// What a server without a tokenizer says to text.
pub(crate) const NO_TOKENIZER: &str = "The server was started with --skip-tokenizer-init: it takes \
                                       input_ids and gives output_ids, no text.";
