use serde::Serialize;
use serde_json::Value;

use crate::json::{FromJson, Json, Path, ReadError};

/// How many tokens there may be. Null is no limit, which is something else than saying nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct TokenLimit(
    /// Tokens, if they are limited.
    pub Option<i64>,
);

impl FromJson for TokenLimit {
    fn one() -> String {
        i64::one()
    }

    fn many() -> String {
        i64::many()
    }

    fn fits(json: &Json) -> bool {
        i64::fits(json)
    }

    fn from_null() -> Option<Self> {
        Some(Self(None))
    }

    fn from_json(json: Json, path: &Path<'_>) -> Result<Self, ReadError> {
        Ok(Self(Some(i64::from_json(json, path)?)))
    }

    fn schema() -> Value {
        i64::schema()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::read;
    use crate::native::SamplingParams;

    #[test]
    fn no_limit_is_not_the_same_as_none_given() {
        for (text, expected) in [
            ("{}", None),
            (r#"{"max_new_tokens": null}"#, Some(TokenLimit(None))),
            (r#"{"max_new_tokens": 7}"#, Some(TokenLimit(Some(7)))),
        ] {
            let params: SamplingParams = read(text.as_bytes()).expect("readable");
            assert_eq!(params.max_new_tokens, expected, "{text}");
            let written = serde_json::to_string(&params).expect("JSON");
            assert_eq!(written, text.replace(' ', ""), "{text}");
        }
    }
}
