//! How many tokens a text has at least, where that can be told without encoding it.
//!
//! Only what is known to keep every byte is trusted; with anything else there is no bound.

use std::collections::HashSet;

use serde_json::Value;
use tokenizers::AddedToken;
use tokenizers::models::ModelWrapper;
use tokenizers::normalizers::NormalizerWrapper;
use tokenizers::pre_tokenizers::PreTokenizerWrapper;
use tokenizers::tokenizer::{NormalizedString, Normalizer, SplitDelimiterBehavior};

use super::growth::{Bounded, Library};
use super::table::byte_of;

/// NFC makes no text shorter than by this: its worst are the three letters of U+0390, 7 bytes to 2.
const NFC_SHRINKS: usize = 4;

/// The unit in which shares of tokens are counted.
const TOKEN: u64 = 1 << 32;

/// What each byte of a text adds to the tokens that the text has at least.
///
/// A byte lies in a token that is no longer than the longest token with that byte. If each adds one by that length,
/// the bytes of a token add up to one at most.
#[derive(Debug)]
pub(super) struct TokenBound {
    shares: [u64; 256],
    /// Of bytes that normalising may change.
    share_of_changed: u64,
    /// Whether normalising changes anything but plain ASCII.
    composes: bool,
}

impl TokenBound {
    /// The bound of a tokenizer; `None` where a token may stand for any number of bytes.
    pub(super) fn new(library: &Library, entries: &[(String, u32)]) -> Option<Self> {
        let bounded = library.get_normalizer();
        let normalizer = bounded.map(|bounded| &bounded.0);
        let shrinks = normalizer.map_or(Some(1), shrinks)?;
        let bytes_are_letters = match library.get_pre_tokenizer() {
            None => false,
            // Were it rewritten twice, the letters of tokens would not be the bytes of the text.
            Some(cuts) if keeps_everything(cuts) && rewrites(cuts) <= 1 => has_byte_level(cuts),
            Some(_) => return None,
        };
        let known = known_bytes(library.get_model(), entries, bytes_are_letters)?;
        let mut longest = Longest::default();
        for (token, _) in entries {
            if bytes_are_letters {
                let bytes: Option<Vec<u8>> = token.chars().map(byte_of).collect();
                longest.add(&bytes.unwrap_or_default());
            } else {
                longest.add(token.as_bytes());
            }
        }
        let added = library.get_added_vocabulary().get_added_tokens_decoder();
        let mut added = added.values();
        added.try_for_each(|token| longest.add_added(token, bounded))?;
        let share_of_changed = if bytes_of_text().all(|byte| known.contains(&byte)) {
            share(longest.of_all.checked_mul(shrinks)?)
        } else {
            0
        };
        let same_bytes = normalizer.is_none_or(keeps_ascii) && bytes_are_letters;
        Some(Self {
            shares: std::array::from_fn(|byte| match byte as u8 {
                _ if !same_bytes => share_of_changed,
                known_byte if known.contains(&known_byte) => share(longest.with[byte]),
                _ => 0,
            }),
            share_of_changed,
            composes: shrinks > 1,
        })
    }

    /// Tokens that a text has at least.
    pub(super) fn least_tokens(&self, text: &str) -> usize {
        let bytes = text.as_bytes();
        let following = bytes.iter().skip(1).map(Some).chain([None]);
        let mut sum = 0_u64;
        for (byte, next) in bytes.iter().zip(following) {
            // A mark behind a letter may become one with it.
            let stays = byte.is_ascii() && next.is_none_or(u8::is_ascii);
            sum = sum.saturating_add(if stays || !self.composes {
                self.shares[usize::from(*byte)]
            } else {
                self.share_of_changed
            });
        }
        usize::try_from(sum / TOKEN).unwrap_or(usize::MAX)
    }
}

/// What a byte adds that lies in a token of at most `length`.
fn share(length: usize) -> u64 {
    TOKEN / (length as u64).max(1)
}

/// Lengths of the longest token, and of the longest with each byte.
struct Longest {
    of_all: usize,
    with: [usize; 256],
}

impl Default for Longest {
    fn default() -> Self {
        Self {
            of_all: 0,
            with: [0; 256],
        }
    }
}

impl Longest {
    fn add(&mut self, token: &[u8]) {
        self.of_all = self.of_all.max(token.len());
        for byte in token {
            let longest = &mut self.with[usize::from(*byte)];
            *longest = token.len().max(*longest);
        }
    }

    /// A token that takes the spaces beside it has no length.
    fn add_added(&mut self, token: &AddedToken, normalizer: Option<&Bounded>) -> Option<()> {
        if token.lstrip || token.rstrip {
            return None;
        }
        self.add(token.content.as_bytes());
        if let Some(normalizer) = normalizer.filter(|_| token.normalized) {
            let mut text = NormalizedString::from(token.content.as_str());
            normalizer.normalize(&mut text).ok()?;
            self.add(text.get().as_bytes());
        }
        Some(())
    }
}

/// By how much a text may become shorter; `None` where that is not known.
fn shrinks(normalizer: &NormalizerWrapper) -> Option<usize> {
    match normalizer {
        NormalizerWrapper::Prepend(_) => Some(1),
        NormalizerWrapper::NFC(_) => Some(NFC_SHRINKS),
        NormalizerWrapper::Replace(replace) => {
            let file = serde_json::to_value(replace).ok()?;
            let replaced = file.pointer("/pattern/String").and_then(Value::as_str)?;
            (replaced.len() <= replace.content.len()).then_some(1)
        }
        NormalizerWrapper::Sequence(steps) => steps
            .as_ref()
            .iter()
            .try_fold(1_usize, |all, step| all.checked_mul(shrinks(step)?)),
        _ => None,
    }
}

/// Whether normalising leaves ASCII as it is, unless a mark follows.
fn keeps_ascii(normalizer: &NormalizerWrapper) -> bool {
    match normalizer {
        NormalizerWrapper::NFC(_) => true,
        NormalizerWrapper::Sequence(steps) => steps.as_ref().iter().all(keeps_ascii),
        _ => false,
    }
}

/// Whether cutting leaves nothing out.
fn keeps_everything(cuts: &PreTokenizerWrapper) -> bool {
    match cuts {
        PreTokenizerWrapper::ByteLevel(_)
        | PreTokenizerWrapper::Digits(_)
        | PreTokenizerWrapper::Metaspace(_) => true,
        PreTokenizerWrapper::Split(split) => split.behavior != SplitDelimiterBehavior::Removed,
        PreTokenizerWrapper::Sequence(steps) => steps.as_ref().iter().all(keeps_everything),
        _ => false,
    }
}

/// How often cutting writes a text in other letters.
fn rewrites(cuts: &PreTokenizerWrapper) -> usize {
    match cuts {
        PreTokenizerWrapper::ByteLevel(_) | PreTokenizerWrapper::Metaspace(_) => 1,
        PreTokenizerWrapper::Sequence(steps) => steps.as_ref().iter().map(rewrites).sum(),
        _ => 0,
    }
}

fn has_byte_level(cuts: &PreTokenizerWrapper) -> bool {
    match cuts {
        PreTokenizerWrapper::ByteLevel(_) => true,
        PreTokenizerWrapper::Sequence(steps) => steps.as_ref().iter().any(has_byte_level),
        _ => false,
    }
}

/// Bytes that text has.
fn bytes_of_text() -> impl Iterator<Item = u8> {
    (0..=0xf4).filter(|byte| !matches!(byte, 0xc0 | 0xc1))
}

/// Bytes that have a token; what is unknown may be left out, or a run of it become one token.
fn known_bytes(
    model: &ModelWrapper,
    entries: &[(String, u32)],
    bytes_are_letters: bool,
) -> Option<HashSet<u8>> {
    let ModelWrapper::BPE(model) = model else {
        return None;
    };
    if model.continuing_subword_prefix.is_some() || model.end_of_word_suffix.is_some() {
        return None;
    }
    if bytes_are_letters {
        let letters = entries.iter().filter_map(|(token, _)| {
            let mut letters = token.chars();
            byte_of(letters.next()?).filter(|_| letters.next().is_none())
        });
        return Some(letters.collect());
    }
    let known: HashSet<&str> = entries.iter().map(|(token, _)| token.as_str()).collect();
    let all = bytes_of_text().all(|byte| known.contains(&*format!("<0x{byte:02X}>")));
    (model.byte_fallback && all).then(|| bytes_of_text().collect())
}
