//! Tokenizers from tokenizer.json and the files beside it.

use std::path::Path;

use serde::de::DeserializeOwned;
use serde_json::Value;
use tokenizers::AddedToken;
use tokenizers::decoders::DecoderWrapper;
use tokenizers::normalizers::NormalizerWrapper;
use tokenizers::pre_tokenizers::PreTokenizerWrapper;
use tokenizers::processors::PostProcessorWrapper;

use crate::bounded_file;

use super::config::TokenizerConfig;
use super::error::guarded;
use super::file::TokenizerFile;
use super::growth::{self, Bounded, Library};
use super::table::Coding;
use super::{Parts, Surround, Tokenizer, TokenizerError, model};

const FILE: &str = "tokenizer.json";

pub(super) fn from_bytes(
    bytes: &[u8],
    config: TokenizerConfig,
) -> Result<Tokenizer, TokenizerError> {
    let file: TokenizerFile =
        serde_json::from_slice(bytes).map_err(|error| malformed(error.to_string()))?;
    growth::check(&file)?;
    let decoding = Decoding::of(file.decoder.as_ref());
    let (model, entries) = model::from_section(file.model)?;
    let mut library = Library::new(model);
    let normalizer: Option<NormalizerWrapper> = section("normalizer", file.normalizer)?;
    let cuts: Option<PreTokenizerWrapper> = section("pre_tokenizer", file.pre_tokenizer)?;
    let surround: Option<PostProcessorWrapper> = section("post_processor", file.post_processor)?;
    let decoder: Option<DecoderWrapper> = section("decoder", file.decoder)?;
    guarded(|| library.with_normalizer(normalizer.map(Bounded)).map(|_| ()))?;
    library.with_pre_tokenizer(cuts);
    library.with_post_processor(surround);
    library.with_decoder(decoder);
    let added = file
        .added_tokens
        .into_iter()
        .map(super::file::AddedEntry::into_token);
    guarded(|| library.add_tokens(added).map(|_| ()))?;
    guarded(|| add_configured(&mut library, &config))?;

    let id_of = |token: &Option<String>| library.token_to_id(token.as_deref()?);
    let (bos, eos) = (id_of(&config.special.bos), id_of(&config.special.eos));
    let said = config.add_bos.is_some() || config.add_eos.is_some();
    let surround = if said && config.class_adds_tokens() {
        Surround::Fixed {
            before: bos.filter(|_| config.add_bos.unwrap_or(true)),
            after: eos.filter(|_| config.add_eos.unwrap_or(false)),
        }
    } else {
        Surround::Library
    };
    Tokenizer::assemble(Parts {
        library,
        entries,
        coding: decoding.coding,
        strip_leading_space: decoding.strip_leading_space,
        exact_bytes: decoding.exact_bytes,
        special: config.special,
        eos: eos.into_iter().collect(),
        surround,
    })
}

pub(super) fn from_file(path: &Path) -> Result<Tokenizer, TokenizerError> {
    from_bytes(&read(path)?, TokenizerConfig::default())
}

pub(super) fn from_folder(folder: &Path) -> Result<Tokenizer, TokenizerError> {
    let mut config = TokenizerConfig::default();
    for name in ["special_tokens_map.json", "tokenizer_config.json"] {
        if let Some(bytes) = read_if_present(&folder.join(name))? {
            config.read(&bytes, name)?;
        }
    }
    from_bytes(&read(&folder.join(FILE))?, config)
}

fn read(path: &Path) -> Result<Vec<u8>, TokenizerError> {
    bounded_file::read(path).map_err(|source| TokenizerError::Unreadable {
        path: path.to_owned(),
        source,
    })
}

fn read_if_present(path: &Path) -> Result<Option<Vec<u8>>, TokenizerError> {
    match bounded_file::read(path) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(TokenizerError::Unreadable {
            path: path.to_owned(),
            source,
        }),
    }
}

/// Tokens that only the configuration knows, or that it calls special.
fn add_configured(library: &mut Library, config: &TokenizerConfig) -> tokenizers::Result<()> {
    let unknown = |library: &Library, token: &AddedToken| {
        !library
            .get_added_vocabulary()
            .get_vocab()
            .contains_key(&token.content)
    };
    let mut tokens: Vec<AddedToken> = config
        .added
        .iter()
        .filter(|(_, token)| unknown(library, token))
        .map(|(_, token)| token.clone())
        .collect();
    let named = config.special.named().map(|(_, text)| text);
    for text in named.chain(config.additional.iter().map(String::as_str)) {
        let known = library.token_to_id(text).is_some();
        if known && !library.get_added_vocabulary().is_special_token(text) {
            tokens.push(AddedToken::from(text, true));
        }
    }
    library.add_tokens(tokens).map(|_| ())
}

fn malformed(reason: String) -> TokenizerError {
    TokenizerError::Malformed { file: FILE, reason }
}

fn section<T: DeserializeOwned>(
    name: &str,
    value: Option<Value>,
) -> Result<Option<T>, TokenizerError> {
    let Some(value) = value else { return Ok(None) };
    guarded(|| Ok(serde_json::from_value(value)?)).map_err(|error| match error {
        TokenizerError::Library(reason) => malformed(format!("{name}: {reason}")),
        other => other,
    })
}

/// How token texts become bytes, read off the decoder.
struct Decoding {
    coding: Coding,
    strip_leading_space: bool,
    /// Whether decoding is nothing but joining the bytes of the tokens.
    exact_bytes: bool,
}

impl Decoding {
    fn of(decoder: Option<&Value>) -> Self {
        let steps: Vec<&Value> = match decoder {
            None => Vec::new(),
            Some(decoder) => match decoder.get("decoders").and_then(Value::as_array) {
                Some(steps) => steps.iter().collect(),
                None => vec![decoder],
            },
        };
        let kind = |step: &Value| step.get("type").and_then(Value::as_str).map(str::to_owned);
        let kinds: Vec<String> = steps.iter().filter_map(|step| kind(step)).collect();
        let kinds: Vec<&str> = kinds.iter().map(String::as_str).collect();
        let bytes = |coding, strip_leading_space| Self {
            coding,
            strip_leading_space,
            exact_bytes: true,
        };
        match kinds.as_slice() {
            ["ByteLevel"] | ["ByteLevel", "Fuse"] | ["Fuse", "ByteLevel"] => {
                bytes(Coding::ByteLevel, false)
            }
            ["Replace", "ByteFallback", "Fuse"] if replaces_spaces(steps[0]) => {
                bytes(Coding::SentencePiece, false)
            }
            ["Replace", "ByteFallback", "Fuse", "Strip"]
                if replaces_spaces(steps[0]) && strips_one_space(steps[3]) =>
            {
                bytes(Coding::SentencePiece, true)
            }
            kinds => Self {
                coding: if kinds.contains(&"Metaspace") || kinds.contains(&"ByteFallback") {
                    Coding::SentencePiece
                } else {
                    Coding::Plain
                },
                strip_leading_space: false,
                exact_bytes: false,
            },
        }
    }
}

fn replaces_spaces(step: &Value) -> bool {
    step.pointer("/pattern/String").and_then(Value::as_str) == Some("▁")
        && step.get("content").and_then(Value::as_str) == Some(" ")
}

fn strips_one_space(step: &Value) -> bool {
    let number = |name: &str| step.get(name).and_then(Value::as_u64);
    step.get("content").and_then(Value::as_str) == Some(" ")
        && number("start") == Some(1)
        && number("stop") == Some(0)
}
