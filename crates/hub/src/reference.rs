//! What a person may write where a model is wanted.

use std::fmt;
use std::path::{Path, PathBuf};

use crate::error::HubError;
use crate::source::wheel::{PINNED, Pin};

/// A model as named on a command line, told apart without asking anybody.
#[derive(Debug, Clone, PartialEq)]
pub enum Reference {
    /// A folder or file on this machine.
    Path(PathBuf),
    /// A model that comes from a pinned package.
    Pinned(&'static Pin),
    /// A repository of the Hugging Face hub.
    Hub(HubId),
}

/// A repository of the hub: `organisation/name[@revision][:file.gguf]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HubId {
    /// `organisation/name`, or a lone name for the oldest models.
    pub repository: String,
    /// Branch, tag or commit.
    pub revision: String,
    /// The GGUF file, or a part of its name such as `Q4_K_M`.
    pub file: Option<String>,
}

impl Reference {
    /// Reads a reference; an existing path wins over names.
    pub fn parse(text: &str) -> Result<Self, HubError> {
        let path = Path::new(text);
        if path.exists() {
            return Ok(Self::Path(path.to_owned()));
        }
        if let Some(pin) = PINNED.iter().find(|pin| pin.is_called(text)) {
            return Ok(Self::Pinned(pin));
        }
        let repository = text.split(['@', ':']).next().unwrap_or(text);
        let path_like = text.starts_with(['/', '.', '~'])
            || repository.matches('/').count() > 1
            || (!text.contains(':') && path.extension().is_some_and(|end| end == "gguf"));
        if path_like {
            return Err(HubError::NoSuchPath {
                path: path.to_owned(),
            });
        }
        HubId::parse(text).map(Self::Hub)
    }
}

impl HubId {
    fn parse(text: &str) -> Result<Self, HubError> {
        let (rest, file) = match text.split_once(':') {
            Some((rest, file)) => (rest, Some(file)),
            None => (text, None),
        };
        let (repository, revision) = rest.split_once('@').unwrap_or((rest, "main"));
        let segments_fit = repository.split('/').count() <= 2 && repository.split('/').all(is_name);
        let revision_fits = revision.split('/').all(is_name);
        let file_fits = file.is_none_or(|file| file.split('/').all(is_name));
        if !(segments_fit && revision_fits && file_fits) {
            return Err(HubError::BadReference {
                text: text.to_owned(),
            });
        }
        Ok(Self {
            repository: repository.to_owned(),
            revision: revision.to_owned(),
            file: file.map(str::to_owned),
        })
    }
}

impl fmt::Display for HubId {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.repository)?;
        if self.revision != "main" {
            write!(out, "@{}", self.revision)?;
        }
        match &self.file {
            Some(file) => write!(out, ":{file}"),
            None => Ok(()),
        }
    }
}

/// Letters, digits and `._-`, at least one that is not a dot: safe as a path segment too.
pub(crate) fn is_name(segment: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    segment.bytes().all(allowed) && segment.bytes().any(|byte| byte != b'.')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hub(repository: &str, revision: &str, file: Option<&str>) -> String {
        let file = file.map(str::to_owned);
        let id = HubId {
            repository: repository.into(),
            revision: revision.into(),
            file,
        };
        format!("{:?}", Reference::Hub(id))
    }

    #[test]
    fn a_reference_is_a_path_a_known_name_or_a_hub_id() {
        let here = env!("CARGO_MANIFEST_DIR");
        let pinned = format!("{:?}", Reference::Pinned(&PINNED[0]));
        let cases = [
            (here, format!("{:?}", Reference::Path(here.into()))),
            ("default", pinned.clone()),
            ("smollm2-135M-instruct", pinned),
            ("Qwen/Qwen3-8B", hub("Qwen/Qwen3-8B", "main", None)),
            ("gpt2", hub("gpt2", "main", None)),
            ("a/b@refs/pr/1", hub("a/b", "refs/pr/1", None)),
            ("a/b@v1:Q4_K_M", hub("a/b", "v1", Some("Q4_K_M"))),
            ("a/b:x.gguf", hub("a/b", "main", Some("x.gguf"))),
        ];
        for (text, expected) in cases {
            assert_eq!(
                format!("{:?}", Reference::parse(text).unwrap()),
                expected,
                "{text}"
            );
        }
    }

    #[test]
    fn nonsense_and_missing_paths_are_told_apart() {
        for text in ["/no/such", "./x", "../x", "a/b/c", "x.gguf", "~/x"] {
            let error = Reference::parse(text).unwrap_err();
            assert!(
                matches!(error, HubError::NoSuchPath { .. }),
                "{text}: {error}"
            );
        }
        for text in ["", "a b", "a/b@", "a/", "a/b@../x", "a/b:../x", "a/..", "é"] {
            let error = Reference::parse(text).unwrap_err();
            assert!(
                matches!(error, HubError::BadReference { .. }),
                "{text}: {error}"
            );
        }
    }
}
