use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use protocol::openai::ChatRequest;

use super::completions::envelope;
use crate::clock::Moment;
use crate::convert::chat::{self, Chat};
use crate::error::{ApiError, OpenAiError};
use crate::extract::OpenAiJson;
use crate::generation::Delivery;
use crate::outputs;
use crate::pipeline::TextPipeline;
use crate::respond::chat::{ChatEvents, ChatView};
use crate::start::{NO_TOKENIZER, start};
use crate::state::Shared;
use crate::stream;

/// `/v1/chat/completions`
pub(crate) async fn chat(
    State(state): State<Shared>,
    OpenAiJson(mut request): OpenAiJson<ChatRequest>,
) -> Result<Response, OpenAiError> {
    let received = Moment::now();
    let Some(text) = state.text.clone() else {
        return Err(ApiError::invalid(NO_TOKENIZER).into());
    };
    let choices = usize::try_from(request.controls.n.unwrap_or(1)).unwrap_or(1);
    let envelope = envelope(&state, &mut request.controls, choices);
    let delivery = Delivery::wanted(request.controls.stream);
    let chat = convert(&state, request, Arc::clone(&text)).await?;
    let outputs = start(&state, vec![chat.generation], delivery, received).await?;
    let view = ChatView {
        envelope,
        facts: outputs.facts().to_vec(),
        log_prob_text: chat.log_probs.then(|| text.tokenizer.clone()),
        parser: chat.parser,
    };
    if delivery == Delivery::Pieces {
        return Ok(stream::respond(outputs, ChatEvents::new(view)));
    }
    let sequences = outputs.collect().await;
    outputs::failure(&sequences)?;
    Ok(Json(view.whole(sequences)).into_response())
}

async fn convert(
    state: &Shared,
    request: ChatRequest,
    text: Arc<TextPipeline>,
) -> Result<Chat, ApiError> {
    let (rules, state) = (state.rules(), Arc::clone(state));
    let convert = move || chat::chat(request, &text, &state.config.sampling_defaults, rules);
    // Rendering waits for another process and takes as long as the template likes.
    let converted = tokio::task::spawn_blocking(convert).await;
    converted.map_err(|error| ApiError::Failed(error.to_string()))?
}
