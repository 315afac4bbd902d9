use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use protocol::native::GenerateRequest;

use crate::clock::Moment;
use crate::convert::foreign;
use crate::convert::native::{batch, preferred};
use crate::error::NativeError;
use crate::extract::NativeJson;
use crate::generation::Delivery;
use crate::outputs;
use crate::respond::native::{NativeEvents, NativeView};
use crate::start::start;
use crate::state::Shared;
use crate::stream;
use crate::work::Abandoned;

/// `/generate`
pub(crate) async fn generate(
    State(state): State<Shared>,
    NativeJson(request, facts): NativeJson<GenerateRequest>,
) -> Result<Response, NativeError> {
    let received = Moment::now();
    foreign(&facts.unknown)?;
    let convert = {
        let (state, caller) = (Arc::clone(&state), facts.caller);
        move |_: &Abandoned| {
            let preferred = preferred(state.config.model.preferred_sampling_params.as_ref())?;
            batch(request, preferred.as_ref(), state.rules(), &caller)
        }
    };
    let batch = state.work.on(facts.bytes, convert).await?;
    let tokenizer = state.text.as_ref().map(|text| text.tokenizer.clone());
    let outputs = start(&state, batch.generations, batch.delivery, received).await?;
    let view = NativeView {
        facts: outputs.facts().to_vec(),
        weight_version: state.config.model.weight_version.clone(),
        with_text: tokenizer.is_some(),
        log_prob_text: tokenizer.filter(|_| batch.text_in_log_probs),
        return_prompt_tokens: batch.return_prompt_tokens,
    };
    let is_list = batch.is_list || outputs.facts().len() > 1;
    if batch.delivery == Delivery::Pieces {
        let events = NativeEvents::new(view, state.config.native_stream, is_list);
        return Ok(stream::respond(outputs, events));
    }
    let sequences = outputs.collect().await;
    if !batch.is_list {
        outputs::failure(&sequences)?;
    }
    let mut answers = view.whole(sequences);
    if is_list {
        return Ok(Json(answers).into_response());
    }
    Ok(Json(answers.pop()).into_response())
}
