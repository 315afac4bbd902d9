use std::cell::Cell;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

/// Values a document may have besides the integers of lists of integers.
pub(super) const MAX_VALUES: usize = 1 << 20;

/// A parsed document.
///
/// Lists of integers, which can be long, are kept compactly; everything else is counted against a
/// budget, so that a document never takes much more memory than its own text.
#[derive(Clone, Debug, PartialEq)]
pub enum Json {
    /// `null`
    Null,
    /// `true` or `false`
    Bool(bool),
    /// An integer.
    Int(i64),
    /// An integer above the largest `i64`.
    Large(u64),
    /// Any other number.
    Float(f64),
    /// A string.
    String(String),
    /// A list of integers, or an empty list.
    Ints(Vec<i64>),
    /// A list of anything else.
    List(Vec<Json>),
    /// An object, in the order of the document.
    Object(Vec<(String, Json)>),
}

/// The text is not JSON, or it is larger than anything we read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SyntaxError(String);

impl fmt::Display for SyntaxError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for SyntaxError {}

impl Json {
    /// Parses a whole document.
    pub fn parse(text: &[u8]) -> Result<Self, SyntaxError> {
        let budget = Budget(Cell::new(MAX_VALUES));
        let mut parser = serde_json::Deserializer::from_slice(text);
        let json = budget
            .deserialize(&mut parser)
            .map_err(|error| SyntaxError(error.to_string()))?;
        parser
            .end()
            .map_err(|error| SyntaxError(error.to_string()))?;
        Ok(json)
    }

    /// What kind of value this is, for messages.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Bool(_) => "a boolean",
            Self::Int(_) | Self::Large(_) => "an integer",
            Self::Float(_) => "a number",
            Self::String(_) => "a string",
            Self::Ints(_) | Self::List(_) => "a list",
            Self::Object(_) => "an object",
        }
    }
}

impl From<Json> for Value {
    fn from(json: Json) -> Self {
        match json {
            Json::Null => Self::Null,
            Json::Bool(value) => value.into(),
            Json::Int(value) => value.into(),
            Json::Large(value) => value.into(),
            Json::Float(value) => value.into(),
            Json::String(value) => value.into(),
            Json::Ints(values) => values.into(),
            Json::List(values) => Self::Array(values.into_iter().map(Into::into).collect()),
            Json::Object(members) => {
                let members = members.into_iter().map(|(key, value)| (key, value.into()));
                Self::Object(members.collect::<Map<_, _>>())
            }
        }
    }
}

struct Budget(Cell<usize>);

impl Budget {
    fn spend<E: serde::de::Error>(&self) -> Result<(), E> {
        let left = self.0.get().checked_sub(1);
        self.0
            .set(left.ok_or_else(|| E::custom(format!("more than {MAX_VALUES} values")))?);
        Ok(())
    }
}

impl<'de> DeserializeSeed<'de> for &Budget {
    type Value = Json;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Json, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for &Budget {
    type Value = Json;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Json, E> {
        Ok(Json::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Json, E> {
        Ok(Json::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Json, E> {
        Ok(Json::Int(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Json, E> {
        Ok(i64::try_from(value).map_or(Json::Large(value), Json::Int))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Json, E> {
        Ok(Json::Float(value))
    }

    fn visit_str<E>(self, value: &str) -> Result<Json, E> {
        Ok(Json::String(value.to_owned()))
    }

    fn visit_string<E>(self, value: String) -> Result<Json, E> {
        Ok(Json::String(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Json, A::Error> {
        let mut ints = Vec::new();
        while let Some(element) = seq.next_element_seed(self)? {
            if let Json::Int(value) = element {
                ints.push(value);
                continue;
            }
            let mut list = Vec::new();
            for value in ints {
                self.spend()?;
                list.push(Json::Int(value));
            }
            self.spend()?;
            list.push(element);
            while let Some(element) = seq.next_element_seed(self)? {
                self.spend()?;
                list.push(element);
            }
            return Ok(Json::List(list));
        }
        Ok(Json::Ints(ints))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Json, A::Error> {
        let mut members = Vec::new();
        while let Some(key) = map.next_key::<String>()? {
            self.spend()?;
            let value = map.next_value_seed(self).map_err(A::Error::custom)?;
            members.push((key, value));
        }
        Ok(Json::Object(members))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round_trip(text: &str) -> String {
        Value::from(Json::parse(text.as_bytes()).unwrap()).to_string()
    }

    #[test]
    fn documents_keep_their_values_and_order() {
        for text in [
            r#"{"b":[1,2,3],"a":{"x":null,"y":[true,"z",1.5,[]]}}"#,
            "[1,2,[3],4]",
            "[]",
            "{}",
            "18446744073709551615",
            "-9223372036854775808",
            "[1,2.5]",
            r#""h\u00e9""#,
        ] {
            let expected: Value = serde_json::from_str(text).unwrap();
            assert_eq!(round_trip(text), expected.to_string());
        }
    }

    #[test]
    fn mistakes_are_located() {
        let cases: &[(&[u8], &str)] = &[
            (b"", "EOF while parsing a value at line 1 column 0"),
            (b"{\"a\": }", "expected value at line 1 column 7"),
            (b"{\"a\": 1} x", "trailing characters at line 1 column 10"),
            (
                b"{\"a\": \"\xff\"}",
                "invalid unicode code point at line 1 column 8",
            ),
            (b"{\"a\": 1e999}", "number out of range at line 1 column 11"),
            (b"{\"a\": NaN}", "expected value at line 1 column 7"),
        ];
        for (text, expected) in cases {
            assert_eq!(Json::parse(text).unwrap_err().to_string(), *expected);
        }
    }

    #[test]
    fn hostile_documents_are_refused() {
        let deep = "[".repeat(100_000);
        assert!(
            Json::parse(deep.as_bytes())
                .unwrap_err()
                .to_string()
                .contains("recursion limit")
        );
        for element in ["{}", "1.5"] {
            let wide = format!("[null{}]", format!(",{element}").repeat(MAX_VALUES));
            let message = Json::parse(wide.as_bytes()).unwrap_err().to_string();
            assert!(message.starts_with("more than 1048576 values"), "{message}");
        }
        let wide = format!("[{}null]", "1,".repeat(MAX_VALUES));
        assert!(Json::parse(wide.as_bytes()).is_err());
        let tokens = format!("[{}1]", "1,".repeat(MAX_VALUES));
        assert!(Json::parse(tokens.as_bytes()).is_ok());
    }
}
