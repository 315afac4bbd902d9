use serde_json::Value;

use crate::error::ApiError;

/// Members of requests that name features which this server does not have.
pub(crate) const REFUSED: [&str; 16] = [
    "audio_data",
    "custom_logit_processor",
    "ebnf",
    "image_data",
    "input_embeds",
    "json_schema",
    "lora_path",
    "regex",
    "response_format",
    "return_hidden_states",
    "return_routed_experts",
    "session_params",
    "structural_tag",
    "suffix",
    "tool_choice",
    "video_data",
];

/// Refuses the first of these features that is asked for; each begins with the name of its member.
///
/// Ignoring them would give a wrong answer without a word.
pub(super) fn unless_absent<const N: usize>(features: [(&str, bool); N]) -> Result<(), ApiError> {
    debug_assert!(
        features
            .iter()
            .all(|(name, _)| REFUSED.iter().any(|member| name.starts_with(member))),
        "what is refused is told in the description of the routes"
    );
    match features.iter().find(|(_, asked)| *asked) {
        None => Ok(()),
        Some((name, _)) => Err(ApiError::Invalid(format!(
            "{name} is not supported by this server."
        ))),
    }
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
    fn the_feature_is_named() {
        assert!(unless_absent([("ebnf", false)]).is_ok());
        let error = unless_absent([("ebnf", false), ("regex", true)]).unwrap_err();
        assert_eq!(error.to_string(), "regex is not supported by this server.");
    }
}
