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
}

impl ReadError {
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
            Self::Syntax(error) => write!(f, "the body is not valid JSON: {error}"),
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

    /// What is read, in the words of JSON Schema.
    fn schema() -> Value;
}

/// A value that is read from the members of an object it may share with others.
pub trait FromFields: Sized {
    /// Takes the members it knows.
    fn from_fields(fields: &mut Fields<'_>) -> Result<Self, ReadError>;

    /// Adds the schemas of the members it knows.
    fn describe(members: &mut Map<String, Value>);
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
    let text = text.strip_prefix(BYTE_ORDER_MARK).unwrap_or(text);
    let json = Json::parse(text).map_err(ReadError::Syntax)?;
    T::from_json(T::relaxed(json), &Path::Root)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_at_the_head_of_a_document_is_no_part_of_it() {
        assert_eq!(read::<bool>("\u{feff} true".as_bytes()), Ok(true));
        for text in ["\u{feff}", "\u{feff}\u{feff}true", "true\u{feff}"] {
            assert!(read::<bool>(text.as_bytes()).is_err(), "{text:?}");
        }
    }
}
