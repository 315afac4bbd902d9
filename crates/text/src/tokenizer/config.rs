//! What tokenizer_config.json and special_tokens_map.json say beyond tokenizer.json.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use tokenizers::AddedToken;

use super::TokenizerError;

/// The special tokens by what they are for, as texts; templates use them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SpecialTokens {
    /// Begins a text.
    pub bos: Option<String>,
    /// Ends a text.
    pub eos: Option<String>,
    /// Fills rows of unequal length.
    pub pad: Option<String>,
    /// Stands for what the vocabulary cannot say.
    pub unk: Option<String>,
    /// Others, by the name that templates use (`image_token`).
    pub others: Vec<(String, String)>,
}

impl SpecialTokens {
    /// Each token with the name that templates use for it.
    pub fn named(&self) -> impl Iterator<Item = (&str, &str)> {
        [
            ("bos_token", &self.bos),
            ("eos_token", &self.eos),
            ("pad_token", &self.pad),
            ("unk_token", &self.unk),
        ]
        .into_iter()
        .filter_map(|(name, token)| Some((name, token.as_deref()?)))
        .chain(
            self.others
                .iter()
                .map(|(name, token)| (name.as_str(), token.as_str())),
        )
    }

    fn set(&mut self, name: &str, text: String) {
        match name {
            "bos_token" => self.bos = Some(text),
            "eos_token" => self.eos = Some(text),
            "pad_token" => self.pad = Some(text),
            "unk_token" => self.unk = Some(text),
            other => match self.others.iter_mut().find(|(known, _)| known == other) {
                Some((_, token)) => *token = text,
                None => self.others.push((other.to_owned(), text)),
            },
        }
    }
}

/// The part of tokenizer_config.json that changes how text is encoded, decoded or rendered.
#[derive(Clone, Debug, Default)]
pub(crate) struct TokenizerConfig {
    pub(crate) special: SpecialTokens,
    pub(crate) additional: Vec<String>,
    pub(crate) added: Vec<(u32, AddedToken)>,
    pub(crate) add_bos: Option<bool>,
    pub(crate) add_eos: Option<bool>,
    pub(crate) class: Option<String>,
    pub(crate) chat_template: Option<Value>,
}

impl TokenizerConfig {
    /// Reads the file, or a special_tokens_map.json, whose keys are a subset of the same.
    pub(crate) fn read(&mut self, bytes: &[u8], file: &'static str) -> Result<(), TokenizerError> {
        let malformed = |reason: String| TokenizerError::Malformed { file, reason };
        let map: Map<String, Value> =
            serde_json::from_slice(bytes).map_err(|error| malformed(error.to_string()))?;
        for (key, value) in map {
            match (key.as_str(), value) {
                (_, Value::Null) => {}
                ("add_bos_token", value) => self.add_bos = value.as_bool(),
                ("add_eos_token", value) => self.add_eos = value.as_bool(),
                ("tokenizer_class", Value::String(class)) => self.class = Some(class),
                ("chat_template", value) => self.chat_template = Some(value),
                ("additional_special_tokens", Value::Array(tokens)) => {
                    self.additional = tokens.iter().filter_map(token_text).collect();
                }
                ("added_tokens_decoder", Value::Object(tokens)) => {
                    self.added = added_tokens(&tokens).map_err(malformed)?;
                }
                (name, value) if name.ends_with("_token") => {
                    if let Some(text) = token_text(&value) {
                        self.special.set(name, text);
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Whether the class of this tokenizer decides by itself which special tokens surround a
    /// text, whatever the post-processor in tokenizer.json says.
    pub(crate) fn class_adds_tokens(&self) -> bool {
        let class = self.class.as_deref().unwrap_or_default();
        ["Llama", "CodeLlama", "Gemma", "Cohere"]
            .iter()
            .any(|family| class.starts_with(family))
    }
}

/// A token is written as its text or as an object that holds it.
fn token_text(value: &Value) -> Option<String> {
    let text = value.as_str().or_else(|| value.get("content")?.as_str())?;
    (!text.is_empty()).then(|| text.to_owned())
}

fn added_tokens(tokens: &Map<String, Value>) -> Result<Vec<(u32, AddedToken)>, String> {
    let mut added = Vec::with_capacity(tokens.len());
    for (key, value) in tokens {
        let id: u32 = key
            .parse()
            .map_err(|_| format!("{key:?} is not a token id"))?;
        let content = token_text(value).ok_or_else(|| format!("token {id} has no text"))?;
        let is = |name: &str| value.get(name).and_then(Value::as_bool).unwrap_or(false);
        let token = AddedToken::from(content, is("special"))
            .single_word(is("single_word"))
            .lstrip(is("lstrip"))
            .rstrip(is("rstrip"))
            .normalized(is("normalized"));
        added.push((id, token));
    }
    added.sort_by_key(|(id, _)| *id);
    Ok(added)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(json: &str) -> TokenizerConfig {
        let mut config = TokenizerConfig::default();
        config
            .read(json.as_bytes(), "tokenizer_config.json")
            .unwrap();
        config
    }

    #[test]
    fn tokens_are_read_from_texts_and_from_objects() {
        let config = read(
            r#"{"bos_token": {"content": "<s>", "special": true}, "eos_token": "</s>", "unk_token": null,
                "image_token": "<image>", "add_bos_token": true, "tokenizer_class": "LlamaTokenizerFast",
                "added_tokens_decoder": {"2": {"content": "</s>", "special": true}, "1": {"content": "<s>"}}}"#,
        );
        let named: Vec<_> = config.special.named().collect();
        assert_eq!(
            named,
            [
                ("bos_token", "<s>"),
                ("eos_token", "</s>"),
                ("image_token", "<image>")
            ]
        );
        assert_eq!(config.add_bos, Some(true));
        assert!(config.class_adds_tokens());
        assert_eq!(
            config.added.iter().map(|(id, _)| *id).collect::<Vec<_>>(),
            [1, 2]
        );
    }

    #[test]
    fn malformed_files_say_what_is_wrong() {
        for (json, expected) in [
            (
                "[1]",
                "tokenizer_config.json is malformed: invalid type: sequence, expected a map",
            ),
            (
                r#"{"added_tokens_decoder": {"x": {"content": "a"}}}"#,
                r#"tokenizer_config.json is malformed: "x" is not a token id"#,
            ),
            (
                r#"{"added_tokens_decoder": {"1": 2}}"#,
                "tokenizer_config.json is malformed: token 1 has no text",
            ),
        ] {
            let error = TokenizerConfig::default()
                .read(json.as_bytes(), "tokenizer_config.json")
                .unwrap_err()
                .to_string();
            assert!(error.starts_with(expected), "{error}");
        }
    }
}
