use axum::Json;
use axum::extract::State;
use protocol::native::{
    FoundCall, ParseFunctionCallRequest, ParseFunctionCallResponse, SeparateReasoningRequest,
    SeparateReasoningResponse,
};
use text::{ReasoningEvent, ReasoningFormat, ReasoningParser, ToolEvent, ToolFormat, ToolParser};

use crate::error::{ApiError, NativeError};
use crate::extract::NativeJson;
use crate::state::Shared;
use crate::work::Abandoned;

/// `/parse_function_call`
pub(crate) async fn parse_function_call(
    State(state): State<Shared>,
    NativeJson(request, facts): NativeJson<ParseFunctionCallRequest>,
) -> Result<Json<ParseFunctionCallResponse>, NativeError> {
    let job = move |_: &Abandoned| calls(request);
    Ok(Json(state.work.on(facts.bytes, job).await?))
}

fn calls(request: ParseFunctionCallRequest) -> Result<ParseFunctionCallResponse, ApiError> {
    let format: ToolFormat = required("tool_call_parser", request.tool_call_parser)?
        .parse()
        .map_err(|error| ApiError::Invalid(format!("{error}")))?;
    let text = required("text", request.text)?;
    let mut parser = ToolParser::new(format);
    let mut events = parser.push(&text);
    events.extend(parser.flush());
    let mut answer = ParseFunctionCallResponse::default();
    for event in events {
        match event {
            ToolEvent::Content(text) => answer.normal_text.push_str(&text),
            ToolEvent::Call { index, name } => {
                let parameters = String::new();
                answer.calls.push(FoundCall {
                    tool_index: index,
                    name,
                    parameters,
                });
            }
            ToolEvent::Arguments { text, .. } => {
                if let Some(call) = answer.calls.last_mut() {
                    call.parameters.push_str(&text);
                }
            }
        }
    }
    Ok(answer)
}

/// `/separate_reasoning`
pub(crate) async fn separate_reasoning(
    State(state): State<Shared>,
    NativeJson(request, facts): NativeJson<SeparateReasoningRequest>,
) -> Result<Json<SeparateReasoningResponse>, NativeError> {
    let job = move |_: &Abandoned| separated(request);
    Ok(Json(state.work.on(facts.bytes, job).await?))
}

fn separated(request: SeparateReasoningRequest) -> Result<SeparateReasoningResponse, ApiError> {
    let format: ReasoningFormat = required("reasoning_parser", request.reasoning_parser)?
        .parse()
        .map_err(|error| ApiError::Invalid(format!("{error}")))?;
    let text = required("text", request.text)?;
    let mut parser = ReasoningParser::new(format, "");
    let mut events = parser.push(&text);
    events.extend(parser.flush());
    let mut answer = SeparateReasoningResponse::default();
    for event in events {
        match event {
            ReasoningEvent::Reasoning(text) => answer.reasoning_text.push_str(&text),
            ReasoningEvent::Content(text) => answer.text.push_str(&text),
        }
    }
    Ok(answer)
}

fn required(name: &str, value: Option<String>) -> Result<String, ApiError> {
    value.ok_or_else(|| ApiError::Invalid(format!("{name}: field required")))
}
