use std::cell::Cell;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

/// Values a document may have besides lists of token ids. One takes about a hundred bytes, in several copies.
pub(super) const MAX_VALUES: usize = 1 << 18;

/// A parsed document.
///
/// Lists of integers that are members of the document itself, or lists of such lists, may be prompts: they can be
/// long and are kept compactly. Everything else is counted against a budget, so that a document never takes much
/// more memory than its own text.
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
pub enum SyntaxError {
    /// It is not JSON: what is wrong, and where.
    Malformed(String),
    /// It has too many values.
    TooManyValues,
}

impl fmt::Display for SyntaxError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Malformed(what) => f.write_str(what),
            Self::TooManyValues => write!(f, "more than {MAX_VALUES} values"),
        }
    }
}

impl std::error::Error for SyntaxError {}

impl Json {
    /// Parses a whole document.
    pub fn parse(text: &[u8]) -> Result<Self, SyntaxError> {
        let budget = Budget {
            left: Cell::new(Some(MAX_VALUES)),
            objects: Cell::new(0),
        };
        let mut parser = serde_json::Deserializer::from_slice(text);
        let parsed = budget.deserialize(&mut parser);
        if budget.left.get().is_none() {
            return Err(SyntaxError::TooManyValues);
        }
        let malformed = |error: serde_json::Error| SyntaxError::Malformed(error.to_string());
        let json = parsed.map_err(malformed)?;
        parser.end().map_err(malformed)?;
        Ok(json)
    }

    /// Integers in lists of nothing else, at any depth.
    pub fn compact_integers(&self) -> usize {
        match self {
            Self::Ints(values) => values.len(),
            Self::List(values) => values.iter().map(Self::compact_integers).sum(),
            Self::Object(members) => members
                .iter()
                .map(|(_, value)| value.compact_integers())
                .sum(),
            _ => 0,
        }
    }

    /// Whether an option is on: neither null, nor false, nor empty.
    pub fn is_on(&self) -> bool {
        match self {
            Self::Null | Self::Bool(false) => false,
            Self::Bool(true) | Self::Int(_) | Self::Large(_) | Self::Float(_) => true,
            Self::String(text) => !text.is_empty(),
            Self::Ints(values) => !values.is_empty(),
            Self::List(values) => values.iter().any(Self::is_on),
            Self::Object(members) => !members.is_empty(),
        }
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

struct Budget {
    /// Values that may still come; none where there were too many.
    left: Cell<Option<usize>>,
    /// Objects around the place that is read.
    objects: Cell<usize>,
}

impl Budget {
    fn spend<E: serde::de::Error>(&self) -> Result<(), E> {
        let left = self.left.get().and_then(|left| left.checked_sub(1));
        self.left.set(left);
        left.map(drop)
            .ok_or_else(|| E::custom(SyntaxError::TooManyValues))
    }

    /// Prompts are members of the document itself: integers further inside are values like others.
    fn counts_integers(&self) -> bool {
        self.objects.get() > 1
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
        let counted = self.counts_integers();
        while let Some(element) = seq.next_element_seed(self)? {
            if let Json::Int(value) = element {
                if counted {
                    self.spend()?;
                }
                ints.push(value);
                continue;
            }
            let mut list = Vec::new();
            for value in ints {
                if !counted {
                    self.spend()?;
                }
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
        self.objects.set(self.objects.get() + 1);
        while let Some(key) = map.next_key::<String>()? {
            self.spend()?;
            let value = map.next_value_seed(self).map_err(A::Error::custom)?;
            members.push((key, value));
        }
        self.objects.set(self.objects.get() - 1);
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
            assert_eq!(message, "more than 262144 values");
        }
        let wide = format!("[{}null]", "1,".repeat(MAX_VALUES));
        assert!(Json::parse(wide.as_bytes()).is_err());
    }

    #[test]
    fn only_prompts_may_have_more_integers_than_a_document_has_values() {
        let ints = format!("[{}1]", "1,".repeat(MAX_VALUES));
        for prompt in ["[]", r#"{"input_ids": []}"#, r#"{"input_ids": [[], []]}"#] {
            let text = prompt.replace("[]", &ints);
            let json = Json::parse(text.as_bytes()).expect("a prompt");
            assert!(json.compact_integers() > MAX_VALUES, "{prompt}");
        }
        for other in [
            r#"{"chat_template_kwargs": {"a": []}}"#,
            r#"{"tools": [{"a": [[]]}]}"#,
            r#"{"a": [{"b": []}]}"#,
        ] {
            let text = other.replace("[]", &ints);
            let refused = Json::parse(text.as_bytes());
            assert_eq!(refused, Err(SyntaxError::TooManyValues), "{other}");
        }
    }

    #[test]
    fn many_small_lists_of_integers_inside_objects_are_counted_together() {
        let list = format!("[{}]", ["1"; 64].join(","));
        let lists = vec![list.as_str(); MAX_VALUES / 64].join(",");
        let text = format!(r#"{{"a": {{"b": [{lists}]}}}}"#);
        let refused = Json::parse(text.as_bytes());
        assert_eq!(refused, Err(SyntaxError::TooManyValues));
    }
}
