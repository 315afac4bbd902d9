//! Vocabularies and merges to the models of the tokenizer library, checked first.

use tokenizers::models::ModelWrapper;
use tokenizers::models::bpe::{BPE, Vocab};
use tokenizers::models::unigram::Unigram;
use tokenizers::models::wordlevel::WordLevel;
use tokenizers::models::wordpiece::WordPiece;

use super::TokenizerError;
use super::error::guarded;
use super::file::{Merge, ModelSection, Vocabulary};
use super::table::check_ids;

const KNOWN_MODELS: &str = "BPE, Unigram, WordLevel, WordPiece";

/// Everything a byte-pair model is made of.
pub(super) struct BpeParts<'a> {
    pub(super) entries: &'a [(String, u32)],
    pub(super) merges: Vec<(String, String)>,
    pub(super) unk_token: Option<String>,
    pub(super) prefix: Option<String>,
    pub(super) suffix: Option<String>,
    pub(super) fuse_unk: bool,
    pub(super) byte_fallback: bool,
    pub(super) ignore_merges: bool,
}

impl BpeParts<'_> {
    pub(super) fn build(self) -> Result<ModelWrapper, TokenizerError> {
        let prefix = self.prefix.unwrap_or_default();
        check_merges(self.entries, &self.merges, &prefix)?;
        let mut builder = BPE::builder()
            .vocab_and_merges(vocab(self.entries), self.merges)
            .fuse_unk(self.fuse_unk)
            .byte_fallback(self.byte_fallback)
            .ignore_merges(self.ignore_merges);
        if let Some(unk) = self.unk_token {
            builder = builder.unk_token(unk);
        }
        if !prefix.is_empty() {
            builder = builder.continuing_subword_prefix(prefix);
        }
        if let Some(suffix) = self.suffix.filter(|suffix| !suffix.is_empty()) {
            builder = builder.end_of_word_suffix(suffix);
        }
        Ok(guarded(|| builder.build())?.into())
    }
}

/// The library copies both halves of a merge into a buffer as long as the longest token and cuts
/// the prefix off the second without looking; what would break it is refused here.
fn check_merges(
    entries: &[(String, u32)],
    merges: &[(String, String)],
    prefix: &str,
) -> Result<(), TokenizerError> {
    let longest = entries
        .iter()
        .map(|(token, _)| token.len())
        .max()
        .unwrap_or(0);
    for (index, (left, right)) in merges.iter().enumerate() {
        let bad = |reason| TokenizerError::BadMerge {
            index,
            merge: format!("{left} {right}"),
            reason,
        };
        if left.is_empty() || right.is_empty() {
            return Err(bad("has an empty half"));
        }
        let Some(rest) = right.strip_prefix(prefix) else {
            return Err(bad("has a second half without the continuing prefix"));
        };
        if left.len() + rest.len() > longest {
            return Err(bad("makes a token that is not in the vocabulary"));
        }
    }
    Ok(())
}

/// The first of several equal tokens keeps its id.
fn vocab(entries: &[(String, u32)]) -> Vocab {
    let mut vocab = Vocab::with_capacity(entries.len());
    for (token, id) in entries {
        vocab.entry(token.clone()).or_insert(*id);
    }
    vocab
}

/// Builds the model that a tokenizer.json describes; also says which tokens it holds.
pub(super) fn from_section(
    section: ModelSection,
) -> Result<(ModelWrapper, Vec<(String, u32)>), TokenizerError> {
    let kind = section.kind().to_owned();
    if let Vocabulary::Ids(entries) = &section.vocab {
        check_ids(entries)?;
    }
    match (kind.as_str(), section.vocab) {
        ("BPE", Vocabulary::Ids(entries)) => {
            let merges = section.merges.unwrap_or_default();
            let parts = BpeParts {
                entries: &entries,
                merges: merges
                    .into_iter()
                    .map(|Merge(left, right)| (left, right))
                    .collect(),
                unk_token: section.unk_token,
                prefix: section.continuing_subword_prefix,
                suffix: section.end_of_word_suffix,
                fuse_unk: section.fuse_unk.unwrap_or(false),
                byte_fallback: section.byte_fallback.unwrap_or(false),
                ignore_merges: section.ignore_merges.unwrap_or(false),
            };
            Ok((parts.build()?, entries))
        }
        ("Unigram", Vocabulary::Scored(pieces)) => unigram(
            pieces,
            section.unk_id,
            section.byte_fallback.unwrap_or(false),
        ),
        ("WordPiece", Vocabulary::Ids(entries)) => {
            let mut builder = WordPiece::builder().vocab(vocab(&entries));
            if let Some(unk) = section.unk_token {
                builder = builder.unk_token(unk);
            }
            if let Some(prefix) = section.continuing_subword_prefix {
                builder = builder.continuing_subword_prefix(prefix);
            }
            if let Some(limit) = section.max_input_chars_per_word {
                builder = builder.max_input_chars_per_word(limit);
            }
            Ok((guarded(|| builder.build())?.into(), entries))
        }
        ("WordLevel", Vocabulary::Ids(entries)) => {
            let mut builder = WordLevel::builder().vocab(vocab(&entries));
            if let Some(unk) = section.unk_token {
                builder = builder.unk_token(unk);
            }
            Ok((guarded(|| builder.build())?.into(), entries))
        }
        ("BPE" | "Unigram" | "WordPiece" | "WordLevel", _) => Err(TokenizerError::Malformed {
            file: "tokenizer.json",
            reason: format!("the vocabulary of a {kind} model has the wrong form"),
        }),
        _ => Err(TokenizerError::UnknownModel {
            name: kind,
            known: KNOWN_MODELS,
        }),
    }
}

/// The library keeps a node for each byte of a piece inside the one before it, and drops them by recursion. In real
/// files the longest have some hundred bytes.
const LONGEST_PIECE: usize = 2048;

fn unigram(
    pieces: Vec<(String, f64)>,
    unk_id: Option<usize>,
    byte_fallback: bool,
) -> Result<(ModelWrapper, Vec<(String, u32)>), TokenizerError> {
    if let Some((piece, _)) = pieces.iter().find(|(piece, _)| piece.len() > LONGEST_PIECE) {
        let length = piece.len();
        return Err(TokenizerError::Malformed {
            file: "tokenizer.json",
            reason: format!("a piece has {length} bytes, the limit is {LONGEST_PIECE}"),
        });
    }
    if let Some((piece, score)) = pieces.iter().find(|(_, score)| !score.is_finite()) {
        return Err(TokenizerError::Malformed {
            file: "tokenizer.json",
            reason: format!("the score of {piece:?} is {score}"),
        });
    }
    let entries = pieces
        .iter()
        .enumerate()
        .map(|(id, (piece, _))| (piece.clone(), id as u32))
        .collect();
    let model = guarded(|| Unigram::from(pieces, unk_id, byte_fallback))?;
    Ok((model.into(), entries))
}
