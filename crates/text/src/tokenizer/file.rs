//! The shape of tokenizer.json, read in one pass without buffering its big lists.

use std::fmt;

use serde::Deserialize;
use serde::de::{self, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::Value;
use tokenizers::AddedToken;

/// A tokenizer.json; truncation and padding are left out because a server does neither.
#[derive(Deserialize)]
pub(super) struct TokenizerFile {
    #[serde(default)]
    pub(super) added_tokens: Vec<AddedEntry>,
    #[serde(default)]
    pub(super) normalizer: Option<Value>,
    #[serde(default)]
    pub(super) pre_tokenizer: Option<Value>,
    #[serde(default)]
    pub(super) post_processor: Option<Value>,
    #[serde(default)]
    pub(super) decoder: Option<Value>,
    pub(super) model: ModelSection,
}

#[derive(Deserialize)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "the file has these five switches"
)]
pub(super) struct AddedEntry {
    content: String,
    #[serde(default)]
    single_word: bool,
    #[serde(default)]
    lstrip: bool,
    #[serde(default)]
    rstrip: bool,
    #[serde(default)]
    normalized: bool,
    #[serde(default)]
    special: bool,
}

impl AddedEntry {
    pub(super) fn into_token(self) -> AddedToken {
        AddedToken::from(self.content, self.special)
            .single_word(self.single_word)
            .lstrip(self.lstrip)
            .rstrip(self.rstrip)
            .normalized(self.normalized)
    }
}

#[derive(Deserialize)]
pub(super) struct ModelSection {
    #[serde(default, rename = "type")]
    pub(super) kind: Option<String>,
    pub(super) vocab: Vocabulary,
    #[serde(default)]
    pub(super) merges: Option<Vec<Merge>>,
    #[serde(default)]
    pub(super) unk_token: Option<String>,
    #[serde(default)]
    pub(super) unk_id: Option<usize>,
    #[serde(default)]
    pub(super) continuing_subword_prefix: Option<String>,
    #[serde(default)]
    pub(super) end_of_word_suffix: Option<String>,
    #[serde(default)]
    pub(super) max_input_chars_per_word: Option<usize>,
    #[serde(default)]
    pub(super) fuse_unk: Option<bool>,
    #[serde(default)]
    pub(super) byte_fallback: Option<bool>,
    #[serde(default)]
    pub(super) ignore_merges: Option<bool>,
}

impl ModelSection {
    /// The model type; files of the first versions do not name it.
    pub(super) fn kind(&self) -> &str {
        match (&self.kind, &self.vocab) {
            (Some(kind), _) => kind,
            (None, _) if self.merges.is_some() => "BPE",
            (None, Vocabulary::Scored(_)) => "Unigram",
            (None, _) if self.max_input_chars_per_word.is_some() => "WordPiece",
            (None, _) => "WordLevel",
        }
    }
}

/// Tokens with ids, or, for unigram models, tokens with scores in the order of their ids.
pub(super) enum Vocabulary {
    Ids(Vec<(String, u32)>),
    Scored(Vec<(String, f64)>),
}

impl<'de> Deserialize<'de> for Vocabulary {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct VocabularyVisitor;
        impl<'de> Visitor<'de> for VocabularyVisitor {
            type Value = Vocabulary;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a map from token to id or a list of tokens with scores")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Vocabulary, A::Error> {
                let mut entries = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    entries.push(entry);
                }
                Ok(Vocabulary::Ids(entries))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Vocabulary, A::Error> {
                let mut entries = Vec::new();
                while let Some(entry) = list.next_element()? {
                    entries.push(entry);
                }
                Ok(Vocabulary::Scored(entries))
            }
        }
        deserializer.deserialize_any(VocabularyVisitor)
    }
}

/// Two tokens that become one, written as `"a b"` or as `["a", "b"]`.
pub(super) struct Merge(pub(super) String, pub(super) String);

impl<'de> Deserialize<'de> for Merge {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct MergeVisitor;
        impl<'de> Visitor<'de> for MergeVisitor {
            type Value = Merge;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a merge of two tokens")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Merge, E> {
                match text.split_once(' ') {
                    Some((left, right)) if !right.contains(' ') => {
                        Ok(Merge(left.to_owned(), right.to_owned()))
                    }
                    _ => Err(E::invalid_value(de::Unexpected::Str(text), &self)),
                }
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Merge, A::Error> {
                let left = list
                    .next_element()?
                    .ok_or_else(|| de::Error::invalid_length(0, &self))?;
                let right = list
                    .next_element()?
                    .ok_or_else(|| de::Error::invalid_length(1, &self))?;
                match list.next_element::<de::IgnoredAny>()? {
                    None => Ok(Merge(left, right)),
                    Some(_) => Err(de::Error::invalid_length(3, &self)),
                }
            }
        }
        deserializer.deserialize_any(MergeVisitor)
    }
}
