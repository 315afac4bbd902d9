//! Which runs somebody means.

use std::fmt;
use std::str::FromStr;

use crate::run::{Origin, Run};

/// Conditions that a run has to meet, all of them.
///
/// Written as `key=pattern` pairs joined by commas, where a pattern may have `*` for anything. A
/// word without a key is the beginning of an identifier, or the pattern of a subject's name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Selection {
    conditions: Vec<(Key, String)>,
    text: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Key {
    Any,
    Id,
    Subject,
    Load,
    Model,
    Session,
    File,
    Note,
    Flag(String),
    Environment(String),
    Version(String),
}

/// A selection that nobody can mean.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{key:?} is nothing runs are chosen by (id, subject, load, model, session, file, note, \
     flag.NAME, env.NAME, version.NAME)"
)]
pub struct NotASelection {
    /// What stood before the equals sign.
    pub key: String,
}

impl FromStr for Selection {
    type Err = NotASelection;

    fn from_str(text: &str) -> Result<Self, NotASelection> {
        let mut conditions: Vec<(Key, String)> = Vec::new();
        for part in text.split(',') {
            let Some((key, pattern)) = split(part) else {
                // a comma inside a name, or a name alone
                match conditions.last_mut() {
                    Some((_, pattern)) => {
                        pattern.push(',');
                        pattern.push_str(part);
                    }
                    None => conditions.push((Key::Any, part.to_owned())),
                }
                continue;
            };
            conditions.push((Key::named(key)?, pattern.to_owned()));
        }
        Ok(Self {
            conditions,
            text: text.to_owned(),
        })
    }
}

/// The parts of `key=pattern`; names such as `Model X=1` are no such thing.
fn split(part: &str) -> Option<(&str, &str)> {
    let (key, pattern) = part.split_once('=')?;
    let plain = |letter: char| letter.is_ascii_alphanumeric() || "._-".contains(letter);
    let lower = key.starts_with(|letter: char| letter.is_ascii_lowercase());
    (lower && key.chars().all(plain)).then_some((key, pattern))
}

impl Key {
    fn named(key: &str) -> Result<Self, NotASelection> {
        Ok(match key {
            "id" => Self::Id,
            "subject" => Self::Subject,
            "load" => Self::Load,
            "model" => Self::Model,
            "session" => Self::Session,
            "file" => Self::File,
            "note" => Self::Note,
            other => match other.split_once('.') {
                Some(("flag", name)) => Self::Flag(name.to_owned()),
                Some(("env", name)) => Self::Environment(name.to_owned()),
                Some(("version", name)) => Self::Version(name.to_owned()),
                _ => {
                    let key = other.to_owned();
                    return Err(NotASelection { key });
                }
            },
        })
    }

    fn fits(&self, pattern: &str, run: &Run) -> bool {
        let fits = |value: Option<&str>| value.is_some_and(|value| matches(pattern, value));
        match self {
            Self::Any => {
                let id = pattern.len() >= 4 && run.id.starts_with(pattern);
                id || matches(pattern, &run.subject.name)
            }
            Self::Id => run.id.starts_with(pattern),
            Self::Subject => fits(Some(&run.subject.name)),
            Self::Load => fits(Some(&run.load.name)),
            Self::Model => fits(run.subject.model.as_deref()),
            Self::Session => match &run.origin {
                Origin::Measured { session, .. } => matches(pattern, session),
                Origin::Imported { .. } => false,
            },
            Self::File => match &run.origin {
                Origin::Imported { file, .. } => matches(pattern, file),
                Origin::Measured { .. } => false,
            },
            Self::Note => fits(run.note()),
            Self::Flag(name) => {
                let flag = format!("--{}", name.trim_start_matches('-'));
                let words = run
                    .subject
                    .command
                    .as_ref()
                    .and_then(|command| command.flag(&flag));
                words.is_some_and(|words| matches(pattern, &words.join(" ")))
            }
            Self::Environment(name) => fits(run.subject.environment.get(name).map(String::as_str)),
            Self::Version(name) => fits(run.subject.versions.get(name).map(String::as_str)),
        }
    }
}

impl Selection {
    /// Whether a run meets all conditions.
    pub fn fits(&self, run: &Run) -> bool {
        self.conditions
            .iter()
            .all(|(key, pattern)| key.fits(pattern, run))
    }
}

impl fmt::Display for Selection {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.text)
    }
}

/// Whether a text is what a pattern with stars says.
fn matches(pattern: &str, text: &str) -> bool {
    let mut parts = pattern.split('*');
    let Some(mut rest) = text.strip_prefix(parts.next().unwrap_or_default()) else {
        return false;
    };
    let mut parts = parts.peekable();
    if parts.peek().is_none() {
        return rest.is_empty();
    }
    while let Some(part) = parts.next() {
        if parts.peek().is_none() {
            return rest.ends_with(part);
        }
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stars_stand_for_anything() {
        let cases = [
            ("abc", "abc", true),
            ("abc", "abcd", false),
            ("a*", "abc", true),
            ("*c", "abc", true),
            ("a*b*c", "axxbyyc", true),
            ("a*b*c", "acb", false),
            ("*", "", true),
            ("", "", true),
            ("a*a", "a", false),
        ];
        for (pattern, text, expected) in cases {
            assert_eq!(matches(pattern, text), expected, "{pattern} {text}");
        }
    }

    #[test]
    fn names_with_equals_signs_are_names() {
        let selection: Selection = "OLMoE FUSE=1".parse().unwrap();
        assert_eq!(
            selection.conditions,
            [(Key::Any, "OLMoE FUSE=1".to_owned())]
        );
        let selection: Selection = "subject=a,env.X=1,load=n=1, b".parse().unwrap();
        let expected = [
            (Key::Subject, "a".to_owned()),
            (Key::Environment("X".to_owned()), "1".to_owned()),
            (Key::Load, "n=1, b".to_owned()),
        ];
        assert_eq!(selection.conditions, expected);
        assert!("colour=red".parse::<Selection>().is_err());
    }
}
