use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use protocol::openai::ChatRequest;
use serde_json::Value;

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

/// Conversations longer than this are rendered where they keep nobody waiting.
const RENDER_INLINE: usize = 16 << 10;

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
    let length = request
        .messages
        .as_deref()
        .unwrap_or_default()
        .iter()
        .map(content_len)
        .sum();
    let convert = move || chat::chat(request, &text, &state.config.sampling_defaults, rules);
    if RENDER_INLINE >= length {
        return convert();
    }
    let converted = tokio::task::spawn_blocking(convert).await;
    converted.map_err(|error| ApiError::Failed(error.to_string()))?
}

/// Bytes of text in a message, roughly.
fn content_len(message: &serde_json::Map<String, Value>) -> usize {
    match message.get("content") {
        Some(Value::String(text)) => text.len(),
        Some(Value::Array(parts)) => {
            let texts = parts
                .iter()
                .filter_map(|part| part.get("text").and_then(Value::as_str));
            texts.map(str::len).sum()
        }
        _ => 0,
    }
}
