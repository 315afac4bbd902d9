use std::fmt;

use serde_json::{Map, Value};

use super::{Json, Path, SyntaxError};

/// The document is not what was expected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReadError {
    /// It is not JSON at all.
    Syntax(SyntaxError),
    /// A value has the wrong type.
    Type {
        /// Where it stands; empty for the document itself.
        path: String,
        /// What should stand there.
        expected: String,
        /// What stands there.
        found: &'static str,
    },
    /// A member that is no prompt has a long list of integers.
    TooManyIntegers {
        /// Which.
        path: String,
        /// How many there are.
        count: usize,
        /// The most that are read.
        limit: usize,
    },
}

impl ReadError {
    /// Whether the document is larger than anything that is read, rather than wrong.
    pub fn is_too_large(&self) -> bool {
        matches!(
            self,
            Self::Syntax(SyntaxError::TooManyValues) | Self::TooManyIntegers { .. }
        )
    }

    /// Something else than `expected` stands at `path`.
    pub fn mismatch(expected: impl Into<String>, found: &Json, path: &Path<'_>) -> Self {
        Self::Type {
            path: path.to_string(),
            expected: expected.into(),
            found: found.kind(),
        }
    }
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Syntax(SyntaxError::Malformed(what)) => {
                write!(f, "the body is not valid JSON: {what}")
            }
            Self::Syntax(many @ SyntaxError::TooManyValues) => write!(
                f,
                "the body has {many} besides lists of token ids: send less in one request"
            ),
            Self::TooManyIntegers { path, count, limit } => write!(
                f,
                "{path}: a list of {count} integers, at most {limit} are read here"
            ),
            Self::Type {
                path,
                expected,
                found,
            } => {
                if !path.is_empty() {
                    write!(f, "{path}: ")?;
                }
                write!(f, "expected {expected}, got {found}")
            }
        }
    }
}

impl std::error::Error for ReadError {}

/// A value that can be read from JSON.
pub trait FromJson: Sized {
    /// What one is called in messages: "a string".
    fn one() -> String;

    /// What several are called: "strings".
    fn many() -> String;

    /// Whether the value has the outer form of one.
    fn fits(json: &Json) -> bool;

    /// What null says where a member stands for something; nothing, as a rule, as if it were absent.
    fn from_null() -> Option<Self> {
        None
    }

    /// What may stand for one, in its own type; anything else as it is.
    fn relaxed(json: Json) -> Json {
        json
    }

    /// Reads one that stands at `path`, of its own type.
    fn from_json(json: Json, path: &Path<'_>) -> Result<Self, ReadError>;

    /// Notes members of objects that nothing reads; `within` names the objects around them.
    fn note_unknown(_json: &Json, _within: &str, _unknown: &mut Unknown) {}

    /// What is read, in the words of JSON Schema.
    fn schema() -> Value;
}

/// A value that is read from the members of an object it may share with others.
pub trait FromFields: Sized {
    /// Takes the members it knows.
    fn from_fields(fields: &mut Fields<'_>) -> Result<Self, ReadError>;

    /// Whether it knows this member; notes what is unknown inside.
    fn knows(name: &str, value: &Json, within: &str, unknown: &mut Unknown) -> bool;

    /// Adds the schemas of the members it knows, and the names of those that must be there.
    fn describe(members: &mut Map<String, Value>, required: &mut Vec<&'static str>);
}

/// Most unknown members whose names are kept.
const MAX_UNKNOWN: usize = 64;

/// Bytes kept of such a name.
const MAX_NAME: usize = 64;

/// Members that ask for something and that nothing reads. Of long names only the beginning is kept.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Unknown {
    names: Vec<String>,
    overflow: bool,
}

impl Unknown {
    /// Their names: `sampling_params.temprature`.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// Whether there are more than anyone names.
    pub fn has_more(&self) -> bool {
        self.overflow
    }

    /// Notes the members of an object that `knows` does not know.
    pub fn note(
        &mut self,
        json: &Json,
        within: &str,
        knows: fn(&str, &Json, &str, &mut Self) -> bool,
    ) {
        let Json::Object(members) = json else { return };
        for (name, value) in members {
            if !knows(name, value, within, self) && value.is_on() {
                self.add(within, name);
            }
        }
    }

    fn add(&mut self, within: &str, name: &str) {
        let name = &name[..name.floor_char_boundary(MAX_NAME)];
        let dot = if within.is_empty() { "" } else { "." };
        let name = format!("{within}{dot}{name}");
        if self.names.contains(&name) {
            return;
        }
        if self.names.len() < MAX_UNKNOWN {
            self.names.push(name);
        } else {
            self.overflow = true;
        }
    }
}

/// The members of an object that are still to be read.
#[derive(Debug)]
pub struct Fields<'a> {
    members: Vec<(String, Json)>,
    path: &'a Path<'a>,
}

impl<'a> Fields<'a> {
    /// The members of the object at `path`.
    pub fn new(json: Json, path: &'a Path<'a>) -> Result<Self, ReadError> {
        match json {
            Json::Object(members) => Ok(Self { members, path }),
            other => Err(ReadError::mismatch("an object", &other, path)),
        }
    }

    /// Takes a member, or what may stand for it; `None` when it is absent, and mostly when it is null.
    pub fn take<T: FromJson>(&mut self, key: &str) -> Result<Option<T>, ReadError> {
        let value = self.find(key).map(T::relaxed);
        self.understand(key, value)
    }

    /// The same for a member that nothing else may stand for.
    pub fn take_exactly<T: FromJson>(&mut self, key: &str) -> Result<Option<T>, ReadError> {
        let value = self.find(key);
        self.understand(key, value)
    }

    /// Of several, the last counts.
    fn find(&mut self, key: &str) -> Option<Json> {
        let member = self.members.iter_mut().rev().find(|(name, _)| name == key);
        member.map(|(_, value)| std::mem::replace(value, Json::Null))
    }

    fn understand<T: FromJson>(
        &self,
        key: &str,
        value: Option<Json>,
    ) -> Result<Option<T>, ReadError> {
        match value {
            None => Ok(None),
            Some(Json::Null) => Ok(T::from_null()),
            Some(value) => T::from_json(value, &Path::Key(self.path, key)).map(Some),
        }
    }
}

/// What some programs write at the head of a text.
const BYTE_ORDER_MARK: &[u8] = "\u{feff}".as_bytes();

/// Reads a whole document.
pub fn read<T: FromJson>(text: &[u8]) -> Result<T, ReadError> {
    read_noting(text).map(|(value, _)| value)
}

/// Reads a whole document and tells what in it was not read.
pub fn read_noting<T: FromJson>(text: &[u8]) -> Result<(T, Unknown), ReadError> {
    let text = text.strip_prefix(BYTE_ORDER_MARK).unwrap_or(text);
    let json = Json::parse(text).map_err(ReadError::Syntax)?;
    let mut unknown = Unknown::default();
    T::note_unknown(&json, "", &mut unknown);
    let value = T::from_json(T::relaxed(json), &Path::Root)?;
    Ok((value, unknown))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::native::GenerateRequest;

    #[test]
    fn members_that_ask_for_something_and_are_not_known_are_named() {
        let unknown = |text: &str| {
            let read = read_noting::<GenerateRequest>(text.as_bytes());
            read.expect("a request").1
        };
        for (text, expected) in [
            (r#"{"text": "a", "stream": true}"#, &[][..]),
            (r#"{"temprature": 0.5}"#, &["temprature"]),
            (r#"{"a": null, "b": false, "c": [], "d": "", "e": {}}"#, &[]),
            (r#"{"a": 0, "b": [1], "a": 1}"#, &["a", "b"]),
            (
                r#"{"sampling_params": {"top_q": 1}}"#,
                &["sampling_params.top_q"],
            ),
            (
                r#"{"sampling_params": [{"n": 1}, {"x": 1}, {"x": 2}]}"#,
                &["sampling_params.x"],
            ),
            (r#"{"session_params": {"x": 1}}"#, &[]),
        ] {
            assert_eq!(unknown(text).names(), expected, "{text}");
        }
        let long = format!(r#"{{"{}": 1}}"#, "é".repeat(1000));
        assert_eq!(unknown(&long).names(), ["é".repeat(32)]);
        let members = (0..=MAX_UNKNOWN).map(|number| format!(r#""m{number}": 1"#));
        let many = format!("{{{}}}", members.collect::<Vec<_>>().join(","));
        assert_eq!(unknown(&many).names().len(), MAX_UNKNOWN);
        assert!(unknown(&many).has_more());
        assert!(!unknown(&long).has_more());
    }

    #[test]
    fn long_lists_of_integers_are_read_where_prompts_are_and_nowhere_else() {
        let ints = format!("[{}1]", "1,".repeat(20_000));
        let read = |name: &str| {
            let text = format!(r#"{{"{name}": {ints}}}"#);
            read::<GenerateRequest>(text.as_bytes())
        };
        assert!(read("input_ids").is_ok());
        let refused = read("session_params").expect_err("a long list");
        assert!(refused.is_too_large());
        assert_eq!(
            refused.to_string(),
            "session_params: a list of 20001 integers, at most 16384 are read here"
        );
    }

    #[test]
    fn a_mark_at_the_head_of_a_document_is_no_part_of_it() {
        assert_eq!(read::<bool>("\u{feff} true".as_bytes()), Ok(true));
        for text in ["\u{feff}", "\u{feff}\u{feff}true", "true\u{feff}"] {
            assert!(read::<bool>(text.as_bytes()).is_err(), "{text:?}");
        }
    }
}
