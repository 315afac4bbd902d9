use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use protocol::openai::ChatRequest;

use super::completions::envelope;
use crate::clock::Moment;
use crate::convert::{chat, foreign};
use crate::error::{ApiError, OpenAiError};
use crate::extract::OpenAiJson;
use crate::generation::Delivery;
use crate::outputs;
use crate::respond::chat::{ChatEvents, ChatView};
use crate::start::{NO_TOKENIZER, start};
use crate::state::Shared;
use crate::stream;
use crate::work::Abandoned;

/// `/v1/chat/completions`
pub(crate) async fn chat(
    State(state): State<Shared>,
    OpenAiJson(mut request, facts): OpenAiJson<ChatRequest>,
) -> Result<Response, OpenAiError> {
    let received = Moment::now();
    let Some(text) = state.text.clone() else {
        return Err(ApiError::invalid(NO_TOKENIZER).into());
    };
    foreign(&facts.unknown)?;
    let choices = usize::try_from(request.controls.n.unwrap_or(1)).unwrap_or(1);
    let envelope = envelope(&state, &mut request.controls, choices)?;
    let delivery = Delivery::wanted(request.controls.stream);
    // A template may take its time over a short conversation.
    let convert = {
        let (state, text, caller) = (Arc::clone(&state), Arc::clone(&text), facts.caller);
        move |_: &Abandoned| {
            let defaults = &state.config.sampling_defaults;
            chat::chat(request, &text, defaults, state.rules(), &caller)
        }
    };
    let chat = state.work.aside(facts.bytes, convert).await?;
    let outputs = start(&state, vec![chat.generation], delivery, received).await?;
    let view = ChatView {
        envelope,
        facts: outputs.facts().to_vec(),
        log_prob_text: chat.log_probs.then(|| text.tokenizer.clone()),
        parser: chat.parser,
        thoughts: chat.thoughts,
    };
    if delivery == Delivery::Pieces {
        return Ok(stream::respond(outputs, ChatEvents::new(view)));
    }
    let sequences = outputs.collect().await;
    outputs::failure(&sequences)?;
    Ok(Json(view.whole(sequences)).into_response())
}
