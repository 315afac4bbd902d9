//! Tokenizers from the vocabulary inside a GGUF file.

use rustc_hash::FxHashMap;
use tokenizers::AddedToken;
use tokenizers::normalizers::NormalizerWrapper;
use tokenizers::normalizers::prepend::Prepend;
use tokenizers::normalizers::replace::Replace;
use tokenizers::normalizers::utils::Sequence;

use super::error::guarded;
use super::growth::{Bounded, Library};
use super::model::BpeParts;
use super::pre::PreRule;
use super::table::Coding;
use super::{Parts, SpecialTokens, Surround, Tokenizer, TokenizerError};

/// What a GGUF file says about its vocabulary, as read from the keys `tokenizer.ggml.*`.
#[derive(Clone, Debug, Default)]
pub struct GgufVocabulary {
    /// `model`: `gpt2` for byte-level merges, `llama` for SentencePiece.
    pub model: String,
    /// `pre`: how text is cut before merging; only `gpt2` models use it.
    pub pre: Option<String>,
    /// `tokens`, in the order of their ids.
    pub tokens: Vec<String>,
    /// `token_type`: 1 normal, 2 unknown, 3 control, 4 user-defined, 5 unused, 6 byte; may be empty.
    pub token_types: Vec<i32>,
    /// `scores`, used by `llama` models; may be empty.
    pub scores: Vec<f32>,
    /// `merges`, each two tokens with a space between; used by `gpt2` models.
    pub merges: Vec<String>,
    /// `bos_token_id`.
    pub bos: Option<u32>,
    /// `eos_token_id`.
    pub eos: Option<u32>,
    /// `eot_token_id`, the end of a turn where it differs from `eos`.
    pub eot: Option<u32>,
    /// `padding_token_id`.
    pub pad: Option<u32>,
    /// `unknown_token_id`.
    pub unk: Option<u32>,
    /// `add_bos_token`; when absent the model type decides.
    pub add_bos: Option<bool>,
    /// `add_eos_token`.
    pub add_eos: Option<bool>,
    /// `add_space_prefix`; when absent, true for `llama` models.
    pub add_space_prefix: Option<bool>,
    /// `tokenizer.chat_template`; kept here for the caller, the tokenizer does not use it.
    pub chat_template: Option<String>,
}

const CONTROL: i32 = 3;
const USER_DEFINED: i32 = 4;

/// Control tokens that end a turn in the formats of known models. GGUF names one end token only,
/// and often the wrong one of two.
const TURN_ENDS: &[&str] = &[
    "<|im_end|>",
    "<|eot_id|>",
    "<|eom_id|>",
    "<|end_of_text|>",
    "<|endoftext|>",
    "<end_of_turn>",
    "<|end|>",
    "<|return|>",
    "<|call|>",
    "<|end_of_turn|>",
    "<｜end▁of▁sentence｜>",
];

pub(super) fn build(vocabulary: GgufVocabulary) -> Result<Tokenizer, TokenizerError> {
    check(&vocabulary)?;
    match vocabulary.model.as_str() {
        "gpt2" => byte_level(vocabulary),
        "llama" => sentence_piece(vocabulary),
        _ => Err(TokenizerError::UnknownModel {
            name: vocabulary.model,
            known: "gpt2, llama",
        }),
    }
}

fn check(vocabulary: &GgufVocabulary) -> Result<(), TokenizerError> {
    let tokens = vocabulary.tokens.len();
    if tokens == 0 {
        return Err(TokenizerError::EmptyVocabulary);
    }
    for (count, part) in [
        (vocabulary.token_types.len(), "token types"),
        (vocabulary.scores.len(), "scores"),
    ] {
        if count != 0 && count != tokens {
            return Err(TokenizerError::LengthMismatch {
                tokens,
                count,
                part,
            });
        }
    }
    for (id, role) in [
        (vocabulary.bos, "bos"),
        (vocabulary.eos, "eos"),
        (vocabulary.eot, "eot"),
        (vocabulary.pad, "pad"),
        (vocabulary.unk, "unk"),
    ] {
        if let Some(id) = id.filter(|id| *id as usize >= tokens) {
            return Err(TokenizerError::SpecialOutside { role, id, tokens });
        }
    }
    Ok(())
}

fn byte_level(mut vocabulary: GgufVocabulary) -> Result<Tokenizer, TokenizerError> {
    let rule = PreRule::named(vocabulary.pre.as_deref().unwrap_or("default"))?;
    let merges = std::mem::take(&mut vocabulary.merges)
        .iter()
        .enumerate()
        .map(|(index, merge)| split_merge(index, merge))
        .collect::<Result<_, _>>()?;
    let entries = take_entries(&mut vocabulary);
    let model = BpeParts {
        entries: &entries,
        merges,
        unk_token: None,
        prefix: None,
        suffix: None,
        fuse_unk: false,
        byte_fallback: false,
        ignore_merges: rule.ignore_merges,
    }
    .build()?;
    let mut library = Library::new(model);
    library.with_pre_tokenizer(Some(rule.pre_tokenizer()?));
    guarded(|| {
        library
            .with_normalizer(rule.normalizer().map(Bounded))
            .map(|_| ())
    })?;
    let add_bos = vocabulary.add_bos.unwrap_or(rule.add_bos);
    finish(
        &vocabulary,
        library,
        entries,
        add_bos,
        Coding::ByteLevel,
        false,
    )
}

/// Merges are written with a space between; neither half holds one, but may begin the text.
fn split_merge(index: usize, merge: &str) -> Result<(String, String), TokenizerError> {
    let halves = merge
        .char_indices()
        .skip(1)
        .find(|(_, character)| *character == ' ');
    let (at, _) = halves.ok_or_else(|| TokenizerError::BadMerge {
        index,
        merge: merge.to_owned(),
        reason: "is not two tokens with a space between",
    })?;
    Ok((merge[..at].to_owned(), merge[at + 1..].to_owned()))
}

fn sentence_piece(mut vocabulary: GgufVocabulary) -> Result<Tokenizer, TokenizerError> {
    let prefix = vocabulary.add_space_prefix.unwrap_or(true);
    let entries = take_entries(&mut vocabulary);
    let unk_token = vocabulary.unk.map(|id| entries[id as usize].0.clone());
    let model = BpeParts {
        entries: &entries,
        merges: merges_from_scores(&entries, &vocabulary.scores),
        unk_token,
        prefix: None,
        suffix: None,
        fuse_unk: true,
        byte_fallback: true,
        ignore_merges: false,
    }
    .build()?;
    let mut library = Library::new(model);
    let space = guarded(|| Replace::new(" ", "▁"))?;
    let mut normalizers = vec![NormalizerWrapper::Replace(space)];
    if prefix {
        normalizers.insert(0, NormalizerWrapper::Prepend(Prepend::new("▁".to_owned())));
    }
    let normalizer = NormalizerWrapper::Sequence(Sequence::new(normalizers));
    guarded(|| {
        library
            .with_normalizer(Some(Bounded(normalizer)))
            .map(|_| ())
    })?;
    let add_bos = vocabulary.add_bos.unwrap_or(true);
    finish(
        &vocabulary,
        library,
        entries,
        add_bos,
        Coding::SentencePiece,
        prefix,
    )
}

/// SentencePiece merges whichever neighbours make the token with the best score. As ranked
/// merges: every way to cut a token in two, best score first, longer halves first among equals.
fn merges_from_scores(entries: &[(String, u32)], scores: &[f32]) -> Vec<(String, String)> {
    let ids: FxHashMap<&str, u32> = entries
        .iter()
        .rev()
        .map(|(token, id)| (token.as_str(), *id))
        .collect();
    let mut cuts: Vec<(f32, &str, &str)> = Vec::new();
    for (token, id) in entries {
        let score = scores.get(*id as usize).copied().unwrap_or(0.0);
        let from = cuts.len();
        for (at, _) in token.char_indices().skip(1) {
            let (left, right) = token.split_at(at);
            if ids.contains_key(left) && ids.contains_key(right) {
                cuts.push((score, left, right));
            }
        }
        cuts[from..].sort_by_key(|(_, left, right)| (ids[left], ids[right]));
    }
    cuts.sort_by(|a, b| {
        let lengths = |cut: &(f32, &str, &str)| (cut.1.chars().count(), cut.2.chars().count());
        b.0.total_cmp(&a.0)
            .then_with(|| lengths(b).cmp(&lengths(a)))
    });
    cuts.into_iter()
        .map(|(_, left, right)| (left.to_owned(), right.to_owned()))
        .collect()
}

fn take_entries(vocabulary: &mut GgufVocabulary) -> Vec<(String, u32)> {
    std::mem::take(&mut vocabulary.tokens)
        .into_iter()
        .enumerate()
        .map(|(id, token)| (token, id as u32))
        .collect()
}

fn finish(
    vocabulary: &GgufVocabulary,
    mut library: Library,
    entries: Vec<(String, u32)>,
    add_bos: bool,
    coding: Coding,
    strip_leading_space: bool,
) -> Result<Tokenizer, TokenizerError> {
    let kinds = vocabulary.token_types.iter().zip(&entries);
    let added = kinds.filter_map(|(kind, (token, _))| match *kind {
        CONTROL => Some(AddedToken::from(token, true)),
        // Merged like any other text where spaces are rewritten first.
        USER_DEFINED => Some(
            AddedToken::from(token, false)
                .normalized(coding == Coding::SentencePiece && !strip_leading_space),
        ),
        _ => None,
    });
    guarded(|| library.add_tokens(added).map(|_| ()))?;
    let text = |id: Option<u32>| id.map(|id| entries[id as usize].0.clone());
    let special = SpecialTokens {
        bos: text(vocabulary.bos),
        eos: text(vocabulary.eos),
        pad: text(vocabulary.pad),
        unk: text(vocabulary.unk),
        others: Vec::new(),
    };
    let ends = entries.iter().filter(|(token, id)| {
        vocabulary.token_types.get(*id as usize) == Some(&CONTROL)
            && TURN_ENDS.contains(&token.as_str())
    });
    let mut eos: Vec<u32> = vocabulary.eos.into_iter().chain(vocabulary.eot).collect();
    eos.extend(ends.map(|(_, id)| *id));
    let surround = Surround::Fixed {
        before: vocabulary.bos.filter(|_| add_bos),
        after: vocabulary
            .eos
            .filter(|_| vocabulary.add_eos.unwrap_or(false)),
    };
    Tokenizer::assemble(Parts {
        library,
        entries,
        coding,
        strip_leading_space,
        special,
        eos,
        surround,
        exact_bytes: true,
    })
}
