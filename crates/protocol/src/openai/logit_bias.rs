use serde::{Serialize, Serializer};
use serde_json::{Value, json};

use crate::json::{FromJson, Json, Path, ReadError};

/// What is added to the logits of tokens: an object whose keys are token ids.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LogitBias(
    /// Token and bias, in the order of the document.
    pub Vec<(i64, f64)>,
);

impl Serialize for LogitBias {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(token, bias)| (token.to_string(), bias)))
    }
}

impl FromJson for LogitBias {
    fn one() -> String {
        "an object with token ids as keys".to_owned()
    }

    fn many() -> String {
        "objects with token ids as keys".to_owned()
    }

    fn fits(json: &Json) -> bool {
        matches!(json, Json::Object(_))
    }

    fn relaxed(json: Json) -> Json {
        let Json::Object(mut members) = json else {
            return json;
        };
        for (_, bias) in &mut members {
            *bias = f64::relaxed(std::mem::replace(bias, Json::Null));
        }
        Json::Object(members)
    }

    fn from_json(json: Json, path: &Path<'_>) -> Result<Self, ReadError> {
        let Json::Object(members) = json else {
            return Err(ReadError::mismatch(Self::one(), &json, path));
        };
        let read = |(key, bias): (String, Json)| {
            let at = Path::Key(path, &key);
            let token = key.trim().parse().map_err(|_| ReadError::Type {
                path: at.to_string(),
                expected: "a token id as key".to_owned(),
                found: "a string",
            })?;
            Ok((token, f64::from_json(bias, &at)?))
        };
        members
            .into_iter()
            .map(read)
            .collect::<Result<_, _>>()
            .map(Self)
    }

    fn schema() -> Value {
        json!({"type": "object", "additionalProperties": {"type": "number"}})
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::read;

    #[test]
    fn keys_are_tokens_and_values_numbers() {
        let bias: LogitBias = read(br#"{"5": -100, "12": "0.5"}"#).unwrap();
        assert_eq!(bias, LogitBias(vec![(5, -100.0), (12, 0.5)]));
        assert_eq!(
            serde_json::to_string(&bias).unwrap(),
            r#"{"5":-100.0,"12":0.5}"#
        );
        for (text, expected) in [
            (r#"{"x": 1}"#, "x: expected a token id as key, got a string"),
            (r#"{"5": "x"}"#, "5: expected a number, got a string"),
            (
                "[1]",
                "expected an object with token ids as keys, got a list",
            ),
        ] {
            assert_eq!(
                read::<LogitBias>(text.as_bytes()).unwrap_err().to_string(),
                expected
            );
        }
    }
}
