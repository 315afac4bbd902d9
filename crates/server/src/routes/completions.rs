use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use protocol::openai::{CompletionRequest, Controls};

use crate::clock::Moment;
use crate::convert::completions::batch;
use crate::convert::foreign;
use crate::error::{ApiError, OpenAiError};
use crate::extract::OpenAiJson;
use crate::generation::{Delivery, Prompt};
use crate::outputs;
use crate::respond::completions::{CompletionEvents, CompletionView, Envelope};
use crate::start::{NO_TOKENIZER, start};
use crate::state::{self, Shared};
use crate::stream;
use crate::work::Abandoned;

/// `/v1/completions`
pub(crate) async fn completions(
    State(state): State<Shared>,
    OpenAiJson(mut request, facts): OpenAiJson<CompletionRequest>,
) -> Result<Response, OpenAiError> {
    let received = Moment::now();
    let Some(text) = state.text.clone() else {
        return Err(ApiError::invalid(NO_TOKENIZER).into());
    };
    foreign(&facts.unknown)?;
    let (rules, caller, tokenizer) = (state.rules(), facts.caller, text.tokenizer.clone());
    let convert = move |_: &Abandoned| {
        let mut batch = batch(&mut request, rules, &caller)?;
        let text_of = |prompt| match prompt {
            Prompt::Text(text) | Prompt::Rendered(text) => text,
            Prompt::Tokens(tokens) => tokenizer.decode(&tokens, true),
        };
        let echo = batch.echo.take();
        let echo = echo.map(|prompts| prompts.into_iter().map(text_of).collect());
        Ok((batch, echo, request.controls))
    };
    let (batch, echo, mut controls) = state.work.on(facts.bytes, convert).await?;
    let choices = batch
        .generations
        .first()
        .map_or(1, |first| first.sampling.choices as usize);
    let envelope = envelope(&state, &mut controls, choices)?;
    let delivery = Delivery::wanted(controls.stream);
    let outputs = start(&state, batch.generations, delivery, received).await?;
    let view = CompletionView {
        envelope,
        facts: outputs.facts().to_vec(),
        echo,
        log_prob_text: batch.log_probs.then(|| text.tokenizer.clone()),
    };
    if delivery == Delivery::Pieces {
        return Ok(stream::respond(outputs, CompletionEvents::new(view)));
    }
    let sequences = outputs.collect().await;
    outputs::failure(&sequences)?;
    Ok(Json(view.whole(sequences)).into_response())
}

/// What both OpenAI endpoints put around their answers.
pub(super) fn envelope(
    state: &state::State,
    controls: &mut Controls,
    choices: usize,
) -> Result<Envelope, ApiError> {
    let options = controls.stream_options.take().unwrap_or_default();
    let continuous_usage = options.continuous_usage_stats.unwrap_or(false);
    // SGLang's benchmark asks whole answers for include_usage: they have counts anyway.
    if continuous_usage && !controls.stream.unwrap_or(false) {
        return Err(ApiError::invalid(
            "stream_options.continuous_usage_stats needs stream to be true; leave it out or ask for a stream.",
        ));
    }
    Ok(Envelope {
        model: controls
            .model
            .take()
            .unwrap_or_else(|| "default".to_owned()),
        weight_version: state.config.model.weight_version.clone(),
        cache_report: state.config.cache_report,
        choices,
        include_usage: options.include_usage.unwrap_or(false),
        continuous_usage,
    })
}
