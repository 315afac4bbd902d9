//! Text to token ids and back, identical to the reference library.

mod bound;
mod config;
mod error;
mod file;
mod gguf;
mod growth;
mod json;
mod model;
mod pre;
mod table;

use std::path::Path;
use std::sync::Arc;

pub use config::SpecialTokens;
pub(crate) use config::TokenizerConfig;
pub use error::TokenizerError;
pub use gguf::GgufVocabulary;

use bound::TokenBound;
use error::guarded;
use growth::Library;
use table::{Coding, TokenTable};

/// A tokenizer; a clone is another handle to the same one.
#[derive(Clone, Debug)]
pub struct Tokenizer {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    library: Library,
    table: TokenTable,
    exact_bytes: bool,
    strip_leading_space: bool,
    special: SpecialTokens,
    bos: Option<u32>,
    eos: Vec<u32>,
    surround: Surround,
    bound: Option<TokenBound>,
}

/// What is put around a text when special tokens are asked for.
#[derive(Debug)]
enum Surround {
    /// What the post-processor of tokenizer.json says.
    Library,
    /// These two.
    Fixed {
        before: Option<u32>,
        after: Option<u32>,
    },
}

/// What the readers of the two file formats find out.
struct Parts {
    library: Library,
    entries: Vec<(String, u32)>,
    coding: Coding,
    exact_bytes: bool,
    strip_leading_space: bool,
    special: SpecialTokens,
    eos: Vec<u32>,
    surround: Surround,
}

impl Tokenizer {
    /// Reads a tokenizer.json alone: without its configuration no token is known as bos or eos.
    pub fn from_tokenizer_json(bytes: &[u8]) -> Result<Self, TokenizerError> {
        json::from_bytes(bytes, TokenizerConfig::default())
    }

    /// Reads a file like tokenizer.json alone.
    pub fn from_file(path: &Path) -> Result<Self, TokenizerError> {
        json::from_file(path)
    }

    /// Reads tokenizer.json, tokenizer_config.json and special_tokens_map.json of a model folder;
    /// only the first is required.
    pub fn from_folder(folder: &Path) -> Result<Self, TokenizerError> {
        json::from_folder(folder)
    }

    /// Builds the tokenizer of a GGUF file.
    pub fn from_gguf(vocabulary: GgufVocabulary) -> Result<Self, TokenizerError> {
        gguf::build(vocabulary)
    }

    fn assemble(parts: Parts) -> Result<Self, TokenizerError> {
        let Parts {
            library,
            entries,
            coding,
            special,
            mut eos,
            surround,
            ..
        } = parts;
        let added = library.get_added_vocabulary().get_added_tokens_decoder();
        let mut added: Vec<_> = added
            .iter()
            .map(|(id, token)| (token.content.as_str(), *id, token.special))
            .collect();
        added.sort_unstable_by_key(|(_, id, _)| *id);
        let bound = guarded(|| Ok(TokenBound::new(&library, &entries)))?;
        let entries = entries.iter().map(|(text, id)| (text.as_str(), *id));
        let table = TokenTable::new(coding, entries, added.into_iter())?;
        let bos = special
            .bos
            .as_deref()
            .and_then(|bos| library.token_to_id(bos));
        eos.sort_unstable();
        eos.dedup();
        let inner = Inner {
            library,
            table,
            exact_bytes: parts.exact_bytes,
            strip_leading_space: parts.strip_leading_space,
            special,
            bos,
            eos,
            surround,
            bound,
        };
        Ok(Self {
            inner: Arc::new(inner),
        })
    }

    /// The ids of a text; with `add_special`, those that begin or end a text in this vocabulary
    /// are put around them. Special tokens written out in the text are always recognised.
    pub fn encode(&self, text: &str, add_special: bool) -> Result<Vec<u32>, TokenizerError> {
        let inner = &*self.inner;
        let (before, after, by_library) = match inner.surround {
            _ if !add_special => (None, None, false),
            Surround::Library => (None, None, true),
            Surround::Fixed { before, after } => (before, after, false),
        };
        let encoding = guarded(|| inner.library.encode_fast(text, by_library))?;
        let mut ids = Vec::with_capacity(encoding.len() + 2);
        ids.extend(before);
        ids.extend_from_slice(encoding.get_ids());
        ids.extend(after);
        Ok(ids)
    }

    /// Tokens that a text has at least, known without encoding it; 0 where nothing can be told.
    pub fn least_tokens(&self, text: &str) -> usize {
        let bound = self.inner.bound.as_ref();
        bound.map_or(0, |bound| bound.least_tokens(text))
    }

    /// The text of ids. Unknown ids say nothing; bytes that are no UTF-8 become U+FFFD.
    pub fn decode(&self, ids: &[u32], skip_special: bool) -> String {
        let inner = &*self.inner;
        if !inner.exact_bytes {
            return guarded(|| inner.library.decode(ids, skip_special)).unwrap_or_default();
        }
        let mut bytes = Vec::with_capacity(ids.len() * 4);
        for id in ids {
            if !(skip_special && self.is_special(*id)) {
                bytes.extend_from_slice(self.token_bytes(*id).unwrap_or_default());
            }
        }
        let strip = inner.strip_leading_space && bytes.first() == Some(&b' ');
        String::from_utf8_lossy(&bytes[usize::from(strip)..]).into_owned()
    }

    /// The bytes that a token stands for; a token may hold a part of a character.
    pub fn token_bytes(&self, id: u32) -> Option<&[u8]> {
        self.inner.table.bytes(id)
    }

    /// The text that a token stands for, by itself.
    pub fn token_text(&self, id: u32) -> Option<String> {
        self.token_bytes(id)
            .map(|bytes| String::from_utf8_lossy(bytes).into_owned())
    }

    /// The id of a token by the way the vocabulary writes it (`<|im_end|>`, `Ġthe`).
    pub fn token_id(&self, text: &str) -> Option<u32> {
        self.inner.library.token_to_id(text)
    }

    /// One more than the largest id; some ids below may have no token.
    pub fn vocab_size(&self) -> usize {
        self.inner.table.len()
    }

    /// The token that begins a text, where there is one.
    pub fn bos(&self) -> Option<u32> {
        self.inner.bos
    }

    /// The tokens that end a text or a turn, in rising order. A generation_config.json may know more.
    pub fn eos_ids(&self) -> &[u32] {
        &self.inner.eos
    }

    /// Whether decoding may skip this token.
    pub fn is_special(&self, id: u32) -> bool {
        self.inner.table.is_special(id)
    }

    /// The special tokens as texts, for templates.
    pub fn special_tokens(&self) -> &SpecialTokens {
        &self.inner.special
    }

    /// Whether decoding is nothing but joining the bytes of the tokens.
    pub(crate) fn decodes_bytes(&self) -> bool {
        self.inner.exact_bytes
    }

    /// Whether one space at the very beginning of a decoded text is dropped.
    pub(crate) fn strips_leading_space(&self) -> bool {
        self.inner.strip_leading_space
    }
}
