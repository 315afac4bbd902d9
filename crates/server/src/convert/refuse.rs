use protocol::json::Unknown;
use serde_json::Value;

use crate::error::ApiError;

const FORM: &str = "outputs are not held to a form yet; describe the form in the prompt and check the output, or leave it out";
const TEXT_ONLY: &str = "the model reads and writes text alone; leave it out";
const BEAMS: &str = "outputs are sampled, not searched for; n makes several";
const TOKEN_BIAS: &str = "logit_bias keeps single tokens out or in";
const ANSWER_ONLY: &str =
    "answers have tokens, text and log-probabilities, nothing else of a model; leave it out";
const MUST_CALL: &str =
    "calls are not enforced yet; use tool_choice \"auto\" and ask for the call in the prompt";

/// Members of our requests that name features which this server does not have, and what to do instead.
const REFUSED: [(&str, &str); 16] = [
    ("audio_data", TEXT_ONLY),
    ("custom_logit_processor", TOKEN_BIAS),
    ("ebnf", FORM),
    ("image_data", TEXT_ONLY),
    (
        "input_embeds",
        "prompts are text or tokens; send text or input_ids",
    ),
    ("json_schema", FORM),
    (
        "lora_path",
        "adapters are not applied; merge the adapter into the weights and serve those",
    ),
    ("regex", FORM),
    ("response_format", FORM),
    ("return_hidden_states", ANSWER_ONLY),
    ("return_routed_experts", ANSWER_ONLY),
    (
        "session_params",
        "requests are complete in themselves; send the whole conversation, whose prefix is found in the cache",
    ),
    ("structural_tag", FORM),
    (
        "suffix",
        "write the prompt with the model's own marks for a gap",
    ),
    ("tool_choice", MUST_CALL),
    ("video_data", TEXT_ONLY),
];

/// Members of other servers' requests that change what an answer means. Ignoring them gives a wrong answer without a word.
const FOREIGN: [(&str, &str); 32] = [
    ("allowed_token_ids", TOKEN_BIAS),
    ("audio", TEXT_ONLY),
    ("bad_words", TOKEN_BIAS),
    ("beam_width", BEAMS),
    (
        "chat_template",
        "the template is the model's; start the server with --chat-template",
    ),
    (
        "documents",
        "send them as chat_template_kwargs: {\"documents\": …}",
    ),
    ("ebnf", FORM),
    ("function_call", "send tool_choice, which replaced it"),
    (
        "functions",
        "send tools, which replaced them: [{\"type\": \"function\", \"function\": …}]",
    ),
    ("grammar", FORM),
    ("guided_choice", FORM),
    ("guided_decoding", FORM),
    ("guided_grammar", FORM),
    ("guided_json", FORM),
    ("guided_json_object", FORM),
    ("guided_regex", FORM),
    (
        "include_stop_str_in_output",
        "no_stop_trim keeps stop strings in the text",
    ),
    ("json_schema", FORM),
    ("logits_processors", TOKEN_BIAS),
    (
        "max_thinking_tokens",
        "thinking is not limited apart; max_tokens limits thinking and answer together",
    ),
    (
        "prompt_embeds",
        "prompts are text or tokens; send text or tokens",
    ),
    (
        "prompt_logprobs",
        "logprobs with echo at /v1/completions, or return_logprob with logprob_start_len 0 at /generate, returns them",
    ),
    ("regex", FORM),
    ("response_format", FORM),
    ("return_entropy", ANSWER_ONLY),
    ("return_sampling_mask", ANSWER_ONLY),
    (
        "return_token_ids",
        "/generate returns output_ids, and with return_prompt_token_ids the prompt's",
    ),
    ("structural_tag", FORM),
    ("structured_outputs", FORM),
    (
        "truncate_prompt_tokens",
        "cut the prompt, or start the server with --allow-auto-truncate",
    ),
    ("use_beam_search", BEAMS),
    (
        "web_search_options",
        "nothing is searched for; search in the client and put what was found into a message",
    ),
];

/// Whether a member of our own requests is refused where it asks for something.
pub(crate) fn is_refused(member: &str) -> bool {
    REFUSED.iter().any(|(name, _)| *name == member)
}

/// Refuses the first of these features that is asked for; each begins with the name of its member.
pub(super) fn unless_absent<const N: usize>(features: [(&str, bool); N]) -> Result<(), ApiError> {
    match features.iter().find(|(_, asked)| *asked) {
        None => Ok(()),
        Some((feature, _)) => Err(unsupported(feature)),
    }
}

fn unsupported(feature: &str) -> ApiError {
    let member = feature.split(' ').next().unwrap_or(feature);
    let known = REFUSED.iter().find(|(name, _)| *name == member);
    debug_assert!(
        known.is_some(),
        "what is refused is told in the description of the routes"
    );
    let advice = known.map_or("leave it out", |(_, advice)| *advice);
    ApiError::Invalid(format!(
        "{feature} is not supported by this server: {advice}."
    ))
}

/// Refuses members that only other servers know and that would change the answer.
pub(crate) fn foreign(unknown: &Unknown) -> Result<(), ApiError> {
    for path in unknown.names() {
        let name = path.rsplit('.').next().unwrap_or(path);
        if let Some((_, advice)) = FOREIGN.iter().find(|(foreign, _)| *foreign == name) {
            return Err(ApiError::Invalid(format!(
                "{path} is not supported by this server: {advice}."
            )));
        }
    }
    if unknown.has_more() {
        let count = unknown.names().len();
        return Err(ApiError::Invalid(format!(
            "the request has more than {count} members that are not known; /openapi.json lists those that are."
        )));
    }
    Ok(())
}

/// Whether an option is on: neither absent, nor null, nor false, nor empty.
pub(super) fn is_on(value: Option<&Value>) -> bool {
    match value {
        None | Some(Value::Null | Value::Bool(false)) => false,
        Some(Value::Array(list)) => list.iter().any(|element| is_on(Some(element))),
        Some(Value::Object(members)) => !members.is_empty(),
        Some(Value::String(text)) => !text.is_empty(),
        Some(Value::Bool(true) | Value::Number(_)) => true,
    }
}

/// Whether a response format constrains the output.
pub(super) fn is_constrained(format: Option<&Value>) -> bool {
    let kind = format
        .and_then(|format| format.get("type"))
        .and_then(Value::as_str);
    match kind {
        None => is_on(format),
        Some(kind) => kind != "text",
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn options_that_are_off_are_no_reason_to_refuse() {
        for off in [
            json!(null),
            json!(false),
            json!([]),
            json!([null, false]),
            json!({}),
            json!(""),
        ] {
            assert!(!is_on(Some(&off)), "{off}");
        }
        for on in [
            json!(true),
            json!(["x"]),
            json!({"a": 1}),
            json!("x"),
            json!(0),
        ] {
            assert!(is_on(Some(&on)), "{on}");
        }
        assert!(!is_constrained(None));
        assert!(!is_constrained(Some(&json!({"type": "text"}))));
        assert!(is_constrained(Some(&json!({"type": "json_object"}))));
        assert!(is_constrained(Some(&json!({"nonsense": 1}))));
    }

    #[test]
    fn the_feature_is_named_with_a_way_out() {
        assert!(unless_absent([("ebnf", false)]).is_ok());
        let error = unless_absent([("ebnf", false), ("regex", true)]).unwrap_err();
        let message = error.to_string();
        assert!(
            message.starts_with("regex is not supported by this server: outputs are not held"),
            "{message}"
        );
        let error = unless_absent([("tool_choice \"required\"", true)]).unwrap_err();
        assert!(error.to_string().contains("\"auto\""), "{error}");
    }
}
