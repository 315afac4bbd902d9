use serde::Serialize;
use serde_json::{Value, json};

use crate::json::{FromJson, Json, Path, ReadError};

/// How many steps to record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct StepCount(
    /// Steps.
    pub u64,
);

impl FromJson for StepCount {
    fn one() -> String {
        "a number of steps".to_owned()
    }

    fn many() -> String {
        "numbers of steps".to_owned()
    }

    fn fits(json: &Json) -> bool {
        matches!(json, Json::Int(0..) | Json::Large(_))
    }

    fn relaxed(json: Json) -> Json {
        i64::relaxed(json)
    }

    fn from_json(json: Json, path: &Path<'_>) -> Result<Self, ReadError> {
        let steps = match &json {
            Json::Int(steps) => u64::try_from(*steps).ok(),
            Json::Large(steps) => Some(*steps),
            _ => None,
        };
        let wrong = || ReadError::mismatch(Self::one(), &json, path);
        steps.map(Self).ok_or_else(wrong)
    }

    fn schema() -> Value {
        json!({"anyOf": [{"type": "integer"}, {"type": "string"}]})
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::read;

    #[test]
    fn steps_are_counted_in_whole_numbers_and_none_are_below_zero() {
        for (text, expected) in [("5", Ok(5)), ("\" 12 \"", Ok(12)), ("0", Ok(0))]
            .into_iter()
            .chain([
                ("\"x\"", Err("a string")),
                ("-1", Err("an integer")),
                ("1.5", Err("a number")),
                ("\"-1\"", Err("an integer")),
                ("[3]", Err("a list")),
            ])
        {
            let found = read::<StepCount>(text.as_bytes());
            let found = found
                .map(|steps| steps.0)
                .map_err(|error| error.to_string());
            let expected =
                expected.map_err(|kind: &str| format!("expected a number of steps, got {kind}"));
            assert_eq!(found, expected, "{text}");
        }
    }
}
