//! The tokenizer of the model under test, with what datasets ask of it.

mod word_counts;

use self::word_counts::WordCounts;
use serde::Deserialize;
use serde::de::{IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::Value;
use sha2::{Digest, Sha256};
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use text::{
    ModelFiles, ModelFilesError, RenderInput, SpecialTokens, Template, TemplateError, Tokenizer,
};

/// Why a tokenizer could not be had.
#[derive(Debug, thiserror::Error)]
pub enum VocabularyError {
    /// There is no such folder or file.
    #[error(
        "tokenizer {name}: no such folder or file (give --tokenizer with a folder that has a tokenizer.json)"
    )]
    Missing {
        /// The name as given.
        name: String,
    },
    /// A file cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A file is not what it should be.
    #[error("tokenizer {name}: {reason}")]
    Malformed {
        /// The name as given.
        name: String,
        /// What is wrong.
        reason: String,
    },
}

/// A tokenizer, its chat template, and a few facts about both.
#[derive(Debug)]
pub struct Vocabulary {
    tokenizer: Tokenizer,
    template: Option<Template>,
    base_size: usize,
    ids: Vec<u32>,
    /// Ids of the tokens that have a name, and of those listed beside them.
    marks: Vec<u32>,
    /// Absent where words cannot be counted by themselves.
    words: Option<WordCounts>,
    fingerprint: String,
}

impl Vocabulary {
    /// A vocabulary from its parts.
    ///
    /// `base_size` counts the tokens of the model proper, without those added on top;
    /// `fingerprint` is a SHA-256 of the tokenizer's definition.
    pub fn new(
        tokenizer: Tokenizer,
        template: Option<Template>,
        base_size: usize,
        fingerprint: String,
    ) -> Self {
        let all = 0..tokenizer.vocab_size() as u32;
        let ids: Vec<u32> = all
            .filter(|id| tokenizer.token_bytes(*id).is_some())
            .collect();
        let named = tokenizer.special_tokens().named();
        let marks = named
            .filter_map(|(_, token)| tokenizer.token_id(token))
            .collect();
        let words = WordCounts::of(&tokenizer, &ids);
        Self {
            tokenizer,
            template,
            base_size,
            ids,
            marks,
            words,
            fingerprint,
        }
    }

    /// Reads the tokenizer of a folder, or a tokenizer.json by itself.
    pub fn from_path(name: &str) -> Result<Self, VocabularyError> {
        Self::with_templates(name, &Template::compile)
    }

    /// Reads the same, with the chat template compiled by `compile`: in a sandbox, say.
    pub fn with_templates(
        name: &str,
        compile: &dyn Fn(&str, &SpecialTokens) -> Result<Template, TemplateError>,
    ) -> Result<Self, VocabularyError> {
        let path = Path::new(name);
        let malformed = |reason: String| VocabularyError::Malformed {
            name: name.to_owned(),
            reason,
        };
        let file = if path.is_dir() {
            path.join("tokenizer.json")
        } else {
            path.to_owned()
        };
        if path.is_dir() && !file.is_file() {
            return Err(malformed("the folder has no tokenizer.json".to_owned()));
        }
        if !file.is_file() {
            return Err(VocabularyError::Missing {
                name: name.to_owned(),
            });
        }
        let bytes = std::fs::read(&file).map_err(|source| VocabularyError::Unreadable {
            path: file.clone(),
            source,
        })?;
        let tokenizer = if path.is_dir() {
            Tokenizer::from_folder(path)
        } else {
            Tokenizer::from_tokenizer_json(&bytes)
        }
        .map_err(|error| malformed(error.to_string()))?;
        let base_size = base_size(&bytes).map_err(|error| malformed(error.to_string()))?;
        let source = if path.is_dir() {
            template_source(path)
        } else {
            Ok(None)
        };
        let template = source
            .map_err(|error| malformed(error.to_string()))?
            .map(|source| compile(&source, tokenizer.special_tokens()))
            .transpose()
            .map_err(|error| malformed(error.to_string()))?;
        let fingerprint = hexadecimal(&Sha256::digest(&bytes));
        let mut vocabulary = Self::new(tokenizer, template, base_size, fingerprint);
        if path.is_dir() {
            vocabulary.add_listed_marks(path);
        }
        Ok(vocabulary)
    }

    /// The tokens of a text, with those that a text begins or ends with.
    pub fn encode(&self, text: &str) -> Vec<u32> {
        self.tokenizer.encode(text, true).unwrap_or_default()
    }

    /// How many tokens a text has by itself.
    pub fn count(&self, text: &str) -> usize {
        let whole = |text: &str| {
            self.tokenizer
                .encode(text, false)
                .map_or(0, |ids| ids.len())
        };
        match &self.words {
            Some(words) => words.count(text, whole),
            None => whole(text),
        }
    }

    /// The text of tokens, special ones written out.
    pub fn decode(&self, ids: &[u32]) -> String {
        self.tokenizer.decode(ids, false)
    }

    /// How many tokens are put around a text.
    pub fn tokens_around(&self) -> usize {
        self.encode("").len()
    }

    /// The number of tokens without those added on top.
    pub fn base_size(&self) -> usize {
        self.base_size
    }

    /// Every token id there is, in order.
    pub fn ids(&self) -> &[u32] {
        &self.ids
    }

    /// Whether a token is one of those that mark rather than say something.
    pub fn is_mark(&self, id: u32) -> bool {
        self.marks.contains(&id)
    }

    /// Adds the marks that a tokenizer's files list without naming them.
    fn add_listed_marks(&mut self, folder: &Path) {
        for file in ["tokenizer_config.json", "special_tokens_map.json"] {
            let Ok(bytes) = std::fs::read(folder.join(file)) else {
                continue;
            };
            let config: Value = serde_json::from_slice(&bytes).unwrap_or_default();
            let listed = config["additional_special_tokens"].as_array().cloned();
            for token in listed.unwrap_or_default() {
                let text = token
                    .as_str()
                    .or(token["content"].as_str())
                    .unwrap_or_default();
                self.marks.extend(self.tokenizer.token_id(text));
            }
        }
    }

    /// The id of a token by the way the vocabulary writes it.
    pub fn token_id(&self, text: &str) -> Option<u32> {
        self.tokenizer.token_id(text)
    }

    /// The text of the token that begins a text.
    pub fn bos_text(&self) -> Option<&str> {
        self.tokenizer.special_tokens().bos.as_deref()
    }

    /// Whether there is a chat template.
    pub fn has_template(&self) -> bool {
        self.template.is_some()
    }

    /// A conversation as the model is shown it, ready to be answered; `None` without a template.
    pub fn render(&self, messages: &[Value]) -> Option<Result<String, TemplateError>> {
        let messages = Value::from(messages.to_vec());
        self.template
            .as_ref()
            .map(|template| template.render(RenderInput::new(&messages)))
    }

    /// A digest of the tokenizer's file.
    pub fn fingerprint(&self) -> &str {
        &self.fingerprint
    }
}

fn template_source(folder: &Path) -> Result<Option<String>, ModelFilesError> {
    match ModelFiles::open(folder) {
        Ok(files) => Ok(files.chat_template),
        Err(ModelFilesError::NoConfig { .. }) => Ok(bare_template(folder)),
        Err(error) => Err(error),
    }
}

/// The template of a folder that holds a tokenizer and no model.
fn bare_template(folder: &Path) -> Option<String> {
    if let Ok(template) = std::fs::read_to_string(folder.join("chat_template.jinja")) {
        return Some(template);
    }
    let config = std::fs::read(folder.join("tokenizer_config.json")).ok()?;
    let config: Value = serde_json::from_slice(&config).ok()?;
    config["chat_template"].as_str().map(str::to_owned)
}

/// The SHA-256 of named parts, in order.
pub fn digest_of<'a>(parts: impl IntoIterator<Item = (&'a str, Vec<u8>)>) -> String {
    let mut digest = Sha256::new();
    for (name, part) in parts {
        digest.update((name.len() as u64).to_le_bytes());
        digest.update(name);
        digest.update((part.len() as u64).to_le_bytes());
        digest.update(part);
    }
    hexadecimal(&digest.finalize())
}

/// The digits of a digest.
pub(crate) fn hexadecimal(digest: &[u8]) -> String {
    use fmt::Write;
    digest.iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").expect("a string takes all that is written to it");
        text
    })
}

/// The number of entries of `model.vocab`, without building them.
fn base_size(tokenizer: &[u8]) -> Result<usize, serde_json::Error> {
    #[derive(Deserialize)]
    struct File {
        model: Model,
    }
    #[derive(Deserialize)]
    struct Model {
        vocab: Entries,
    }
    Ok(serde_json::from_slice::<File>(tokenizer)?.model.vocab.0)
}

struct Entries(usize);

impl<'de> Deserialize<'de> for Entries {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Counter;
        impl<'de> Visitor<'de> for Counter {
            type Value = Entries;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("a map or list of tokens")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Entries, A::Error> {
                let mut count = 0;
                while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {
                    count += 1;
                }
                Ok(Entries(count))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Entries, A::Error> {
                let mut count = 0;
                while list.next_element::<IgnoredAny>()?.is_some() {
                    count += 1;
                }
                Ok(Entries(count))
            }
        }
        deserializer.deserialize_any(Counter)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_without_a_tokenizer_is_told_apart_from_none() {
        let folder = tempfile::tempdir().expect("a folder");
        let told = |path: &Path| {
            let error = Vocabulary::from_path(&path.to_string_lossy()).err();
            error.expect("no tokenizer").to_string()
        };
        let here = told(folder.path());
        assert!(
            here.ends_with(": the folder has no tokenizer.json"),
            "{here}"
        );
        let nowhere = told(&folder.path().join("x"));
        assert!(nowhere.contains("x: no such folder or file"), "{nowhere}");
    }
}
