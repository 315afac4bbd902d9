//! What a model folder says about text: configurations, end tokens, defaults, chat template.

use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use crate::bounded_file;
use crate::tokenizer::{Tokenizer, TokenizerConfig, TokenizerError};

/// Why a model folder could not be read.
#[derive(Debug, thiserror::Error)]
pub enum ModelFilesError {
    /// A file is there but cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// A file is not JSON, or not the JSON it should be.
    #[error("{} is malformed: {reason}", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// The folder does not hold a model.
    #[error("{} has no config.json", path.display())]
    NoConfig {
        /// The folder.
        path: PathBuf,
    },
}

/// Sampling parameters that a model's authors recommend; absent ones are not recommended.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SamplingDefaults {
    /// `temperature`.
    pub temperature: Option<f64>,
    /// `top_p`.
    pub top_p: Option<f64>,
    /// `top_k`.
    pub top_k: Option<i64>,
    /// `min_p`.
    pub min_p: Option<f64>,
    /// `repetition_penalty`.
    pub repetition_penalty: Option<f64>,
}

/// The files of a model folder that concern text.
#[derive(Clone, Debug)]
pub struct ModelFiles {
    folder: PathBuf,
    /// config.json.
    pub config: Map<String, Value>,
    /// End tokens named by generation_config.json and config.json, in that order, each once.
    pub eos_ids: Vec<u32>,
    /// The sampling defaults of generation_config.json.
    pub sampling: SamplingDefaults,
    /// The chat template: chat_template.jinja, else chat_template.json, else tokenizer_config.json.
    pub chat_template: Option<String>,
    /// Further templates by name (`tool_use`, `rag`).
    pub named_templates: Vec<(String, String)>,
    /// Whether there is a tokenizer.json.
    pub has_tokenizer: bool,
}

impl ModelFiles {
    /// Reads what is in a folder; only config.json must be there.
    pub fn open(folder: &Path) -> Result<Self, ModelFilesError> {
        let config =
            read_object(&folder.join("config.json"))?.ok_or_else(|| ModelFilesError::NoConfig {
                path: folder.to_owned(),
            })?;
        let generation = read_object(&folder.join("generation_config.json"))?.unwrap_or_default();
        let mut eos_ids = ids(generation.get("eos_token_id"));
        eos_ids.extend(ids(config.get("eos_token_id")));
        let text_config = config
            .get("text_config")
            .and_then(|text| text.get("eos_token_id"));
        eos_ids.extend(ids(text_config));
        let mut seen = Vec::new();
        eos_ids.retain(|id| {
            !seen.contains(id) && {
                seen.push(*id);
                true
            }
        });
        let templates = Templates::read(folder)?;
        Ok(Self {
            folder: folder.to_owned(),
            config,
            eos_ids,
            sampling: SamplingDefaults::read(&generation),
            chat_template: templates.default,
            named_templates: templates.named,
            has_tokenizer: folder.join("tokenizer.json").is_file(),
        })
    }

    /// Loads the tokenizer of the folder.
    pub fn tokenizer(&self) -> Result<Tokenizer, TokenizerError> {
        Tokenizer::from_folder(&self.folder)
    }
}

impl SamplingDefaults {
    fn read(generation: &Map<String, Value>) -> Self {
        let number = |name: &str| generation.get(name).and_then(Value::as_f64);
        Self {
            temperature: number("temperature"),
            top_p: number("top_p"),
            top_k: generation.get("top_k").and_then(Value::as_i64),
            min_p: number("min_p"),
            repetition_penalty: number("repetition_penalty"),
        }
    }
}

/// Templates by name; the one without a name is the default.
#[derive(Default)]
struct Templates {
    default: Option<String>,
    named: Vec<(String, String)>,
}

impl Templates {
    /// Later files win over earlier ones.
    fn read(folder: &Path) -> Result<Self, ModelFilesError> {
        let mut templates = Self::default();
        let path = folder.join("tokenizer_config.json");
        if let Some(bytes) = read(&path)? {
            let mut config = TokenizerConfig::default();
            config
                .read(&bytes, "tokenizer_config.json")
                .map_err(|error| ModelFilesError::Malformed {
                    path: path.clone(),
                    reason: error.to_string(),
                })?;
            templates.take(config.chat_template.as_ref());
        }
        if let Some(object) = read_object(&folder.join("chat_template.json"))? {
            templates.take(object.get("chat_template"));
        }
        let path = folder.join("chat_template.jinja");
        if let Some(bytes) = read(&path)? {
            let source = String::from_utf8(bytes).map_err(|_| ModelFilesError::Malformed {
                path,
                reason: "it is not UTF-8".to_owned(),
            })?;
            templates.default = Some(source);
        }
        Ok(templates)
    }

    /// A template is a text, or a list of texts with names.
    fn take(&mut self, value: Option<&Value>) {
        match value {
            Some(Value::String(source)) => self.default = Some(source.clone()),
            Some(Value::Array(entries)) => {
                for entry in entries {
                    let field = |name: &str| entry.get(name).and_then(Value::as_str);
                    match (field("name"), field("template")) {
                        (Some("default"), Some(source)) => self.default = Some(source.to_owned()),
                        (Some(name), Some(source)) => {
                            self.named.push((name.to_owned(), source.to_owned()));
                        }
                        _ => {}
                    }
                }
            }
            _ => {}
        }
    }
}

/// End tokens are written as a number or as a list of numbers.
fn ids(value: Option<&Value>) -> Vec<u32> {
    let id = |value: &Value| value.as_u64().and_then(|id| u32::try_from(id).ok());
    match value {
        Some(Value::Array(list)) => list.iter().filter_map(id).collect(),
        Some(value) => id(value).into_iter().collect(),
        None => Vec::new(),
    }
}

fn read(path: &Path) -> Result<Option<Vec<u8>>, ModelFilesError> {
    match bounded_file::read(path) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(ModelFilesError::Unreadable {
            path: path.to_owned(),
            source,
        }),
    }
}

fn read_object(path: &Path) -> Result<Option<Map<String, Value>>, ModelFilesError> {
    let Some(bytes) = read(path)? else {
        return Ok(None);
    };
    serde_json::from_slice(&bytes)
        .map(Some)
        .map_err(|error| ModelFilesError::Malformed {
            path: path.to_owned(),
            reason: error.to_string(),
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(files: &[(&str, &str)]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in files {
            std::fs::write(folder.path().join(name), text).unwrap();
        }
        folder
    }

    #[test]
    fn end_tokens_and_defaults_come_from_both_configurations() {
        let folder = folder(&[
            ("config.json", r#"{"eos_token_id": 2, "vocab_size": 10}"#),
            (
                "generation_config.json",
                r#"{"eos_token_id": [7, 2, 7], "temperature": 0.6, "top_k": 20, "top_p": 0.95}"#,
            ),
        ]);
        let files = ModelFiles::open(folder.path()).unwrap();
        assert_eq!(files.eos_ids, [7, 2]);
        let expected = SamplingDefaults {
            temperature: Some(0.6),
            top_k: Some(20),
            top_p: Some(0.95),
            ..SamplingDefaults::default()
        };
        assert_eq!(files.sampling, expected);
        assert_eq!(files.config["vocab_size"], 10);
        assert!(!files.has_tokenizer && files.chat_template.is_none());
    }

    #[test]
    fn a_template_file_wins_over_the_configuration() {
        let config = ("config.json", "{}");
        let in_config = (
            "tokenizer_config.json",
            r#"{"chat_template": [{"name": "default", "template": "A"}, {"name": "rag", "template": "B"}]}"#,
        );
        let open = |files: &[(&str, &str)]| ModelFiles::open(folder(files).path()).unwrap();
        let files = open(&[config, in_config]);
        assert_eq!(files.chat_template.as_deref(), Some("A"));
        assert_eq!(files.named_templates, [("rag".to_owned(), "B".to_owned())]);
        let files = open(&[
            config,
            in_config,
            ("chat_template.json", r#"{"chat_template": "C"}"#),
        ]);
        assert_eq!(files.chat_template.as_deref(), Some("C"));
        let files = open(&[config, in_config, ("chat_template.jinja", "D")]);
        assert_eq!(files.chat_template.as_deref(), Some("D"));
    }

    #[test]
    fn a_folder_that_is_no_model_is_refused_by_name() {
        let empty = folder(&[]);
        let error = ModelFiles::open(empty.path()).unwrap_err().to_string();
        assert!(error.ends_with("has no config.json"), "{error}");
        let broken = folder(&[("config.json", "{\"a\": ")]);
        let error = ModelFiles::open(broken.path()).unwrap_err().to_string();
        assert!(error.contains("config.json is malformed: EOF"), "{error}");
    }
}
