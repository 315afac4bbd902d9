//! What a tokenizer file may make of a text: the library bounds neither how much longer each of its steps makes it,
//! nor what it reserves while it reads them.

use serde_json::{Map, Value};
use tokenizers::TokenizerImpl;
use tokenizers::decoders::DecoderWrapper;
use tokenizers::models::ModelWrapper;
use tokenizers::normalizers::NormalizerWrapper;
use tokenizers::pre_tokenizers::PreTokenizerWrapper;
use tokenizers::processors::PostProcessorWrapper;
use tokenizers::tokenizer::{NormalizedString, Normalizer, Result as LibraryResult};

use super::TokenizerError;
use super::file::TokenizerFile;

/// The library with a normalizer that is watched.
pub(super) type Library =
    TokenizerImpl<ModelWrapper, Bounded, PreTokenizerWrapper, PostProcessorWrapper, DecoderWrapper>;

/// Normalizing makes a text at most as many times as long: one letter of Unicode becomes 11 times as long in NFKC.
const MOST_GROWTH: usize = 16;
/// Bytes that the shortest text may become.
const SHORT: usize = 64;

/// Objects in a section; real ones have about a dozen.
const MOST_OBJECTS: usize = 128;
/// Bytes that are put before a text, or that a single byte may become in one replacement. The longest real are 3.
const MOST_PUT_IN: usize = 16;
/// Bytes of the longest text that a charsmap puts for a letter; in real ones 33.
const MOST_CHARSMAP_ENTRY: usize = 64;
/// Special tokens around a text; real files put three.
const MOST_AROUND: usize = 256;
/// Cuts that write the text in other letters, each up to twice as long; real files have one.
const MOST_REWRITES: usize = 3;

/// A normalizer whose steps are stopped where the text has grown too much.
#[derive(Debug)]
pub(super) struct Bounded(pub(super) NormalizerWrapper);

impl Normalizer for Bounded {
    fn normalize(&self, text: &mut NormalizedString) -> LibraryResult<()> {
        let most = text.get().len() * MOST_GROWTH + SHORT;
        step(&self.0, text, most)
    }
}

fn step(
    normalizer: &NormalizerWrapper,
    text: &mut NormalizedString,
    most: usize,
) -> LibraryResult<()> {
    if let NormalizerWrapper::Sequence(steps) = normalizer {
        return steps
            .as_ref()
            .iter()
            .try_for_each(|inner| step(inner, text, most));
    }
    normalizer.normalize(text)?;
    if text.get().len() <= most {
        return Ok(());
    }
    Err(format!("the normalizer makes a text more than {MOST_GROWTH} times as long").into())
}

/// Refuses a file whose steps could each make a text too much longer.
pub(super) fn check(file: &TokenizerFile) -> Result<(), TokenizerError> {
    for (name, section) in [
        ("normalizer", &file.normalizer),
        ("pre_tokenizer", &file.pre_tokenizer),
        ("post_processor", &file.post_processor),
        ("decoder", &file.decoder),
    ] {
        let mut found = Found::default();
        if let Some(section) = section {
            found
                .look(section)
                .map_err(|reason| malformed(name, &reason))?;
        }
        let limits = [
            ("objects", found.objects, MOST_OBJECTS),
            ("tokens around a text", found.around, MOST_AROUND),
            (
                "byte-level or metaspace cuts",
                found.rewrites,
                MOST_REWRITES,
            ),
        ];
        for (what, count, limit) in limits {
            let matters = limit != MOST_REWRITES || name == "pre_tokenizer";
            if matters && count > limit {
                let reason = format!("it has {count} {what}, the limit is {limit}");
                return Err(malformed(name, &reason));
            }
        }
        if name == "decoder" && found.growth > MOST_PUT_IN {
            let reason =
                format!("its replacements make a text more than {MOST_PUT_IN} times as long");
            return Err(malformed(name, &reason));
        }
    }
    Ok(())
}

fn malformed(section: &str, reason: &str) -> TokenizerError {
    TokenizerError::Malformed {
        file: "tokenizer.json",
        reason: format!("{section}: {reason}"),
    }
}

/// What is in a section. Steps are known by their fields: the oldest files do not name types.
struct Found {
    objects: usize,
    around: usize,
    rewrites: usize,
    growth: usize,
}

impl Default for Found {
    fn default() -> Self {
        Self {
            objects: 0,
            around: 0,
            rewrites: 0,
            growth: 1,
        }
    }
}

impl Found {
    fn look(&mut self, value: &Value) -> Result<(), String> {
        match value {
            Value::Array(items) => items.iter().try_for_each(|item| self.look(item)),
            Value::Object(fields) => {
                self.objects += 1;
                self.look_at_fields(fields)?;
                // Pieces around a text were counted with their tokens.
                let mut rest = fields.iter().filter(|(name, _)| !is_around(name));
                rest.try_for_each(|(_, field)| self.look(field))
            }
            _ => Ok(()),
        }
    }

    fn look_at_fields(&mut self, fields: &Map<String, Value>) -> Result<(), String> {
        let text = |name: &str| fields.get(name).and_then(Value::as_str);
        let rewrites = ["add_prefix_space", "replacement"];
        self.rewrites += usize::from(
            matches!(text("type"), Some("ByteLevel" | "Metaspace"))
                || rewrites.iter().any(|name| fields.contains_key(*name)),
        );
        if let Some(put) = text("prepend") {
            within("the text it prepends", put.len(), MOST_PUT_IN)?;
        }
        if let (Some(content), Some(pattern)) = (text("content"), fields.get("pattern")) {
            let ratio = match pattern.get("String").and_then(Value::as_str) {
                Some(replaced) => content.len().div_ceil(replaced.len().max(1)),
                // A pattern may match between any two letters.
                None => content.len() + 1,
            };
            within("the text it puts for a byte", ratio, MOST_PUT_IN + 1)?;
            self.growth = self.growth.saturating_mul(ratio.max(1));
        }
        if let Some(charsmap) = text("precompiled_charsmap") {
            check_charsmap(charsmap)?;
        }
        for name in ["single", "pair"] {
            if let Some(template) = fields.get(name) {
                self.around += tokens_around(name, template, fields.get("special_tokens"))?;
            }
        }
        Ok(())
    }
}

fn is_around(field: &str) -> bool {
    matches!(field, "single" | "pair" | "special_tokens")
}

fn within(what: &str, length: usize, limit: usize) -> Result<(), String> {
    if length <= limit {
        return Ok(());
    }
    Err(format!("{what} has {length} bytes, the limit is {limit}"))
}

/// Tokens that a template puts around a text, at most.
fn tokens_around(name: &str, template: &Value, special: Option<&Value>) -> Result<usize, String> {
    let ids = |token: &Value| {
        token
            .get("ids")
            .and_then(Value::as_array)
            .map_or(0, Vec::len)
    };
    let longest = match special {
        Some(Value::Object(tokens)) => tokens.values().map(ids).max(),
        Some(Value::Array(tokens)) => tokens.iter().map(ids).max(),
        _ => None,
    };
    let pieces = match template {
        Value::Array(pieces) => pieces.len(),
        Value::String(pieces) => pieces.split_whitespace().count(),
        _ => 0,
    };
    let texts = template.as_array().map_or(0, |pieces| {
        let is_text = |piece: &&Value| piece.get("Sequence").is_some();
        pieces.iter().filter(is_text).count()
    });
    let most = if name == "single" { 1 } else { 2 };
    if texts > most {
        return Err(format!(
            "its template for a {name} has {texts} texts, the limit is {most}"
        ));
    }
    Ok(pieces.saturating_mul(longest.unwrap_or(0).max(1)))
}

/// A charsmap is a size in bytes, as many bytes of a trie, and texts that end with a zero byte. The library
/// reserves the claimed size before it looks whether there is so much.
fn check_charsmap(charsmap: &str) -> Result<(), String> {
    let bytes = base64(charsmap).ok_or("the charsmap is not base64")?;
    let (size, rest) = bytes
        .split_first_chunk()
        .ok_or("the charsmap has no size")?;
    let size = u32::from_le_bytes(*size) as usize;
    if size == 0 || !size.is_multiple_of(4) || size > rest.len() {
        let there = rest.len();
        return Err(format!(
            "the charsmap claims a trie of {size} bytes, it has {there}"
        ));
    }
    let longest = rest[size..].split(|byte| *byte == 0).map(<[u8]>::len).max();
    within(
        "the longest text of the charsmap",
        longest.unwrap_or(0),
        MOST_CHARSMAP_ENTRY,
    )
}

fn base64(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len() / 4 * 3);
    let (mut bits, mut held) = (0_u32, 0);
    for letter in text.trim_end_matches('=').bytes() {
        let value = match letter {
            b'A'..=b'Z' => letter - b'A',
            b'a'..=b'z' => letter - b'a' + 26,
            b'0'..=b'9' => letter - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => return None,
        };
        bits = bits << 6 | u32::from(value);
        held += 6;
        if held >= 8 {
            held -= 8;
            bytes.push((bits >> held) as u8);
        }
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::base64;

    #[test]
    fn base64_is_read_and_nothing_else() {
        assert_eq!(base64("AAECAwQ=").unwrap(), [0, 1, 2, 3, 4]);
        assert_eq!(base64("+/9z").unwrap(), [0xfb, 0xff, 0x73]);
        assert_eq!(base64("").unwrap(), b"");
        assert_eq!(base64("A A="), None);
    }
}
