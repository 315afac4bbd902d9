use std::borrow::Cow;

use serde::{Deserialize, Serialize};

/// The answer of `/v1/models`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelList {
    /// Always `list`.
    pub object: Cow<'static, str>,
    /// The models.
    pub data: Vec<ModelCard>,
}

impl ModelList {
    /// A list of these models.
    pub fn new(data: Vec<ModelCard>) -> Self {
        Self {
            object: "list".into(),
            data,
        }
    }
}

/// One model.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelCard {
    /// Its name.
    pub id: String,
    /// Always `model`.
    pub object: Cow<'static, str>,
    /// Seconds since 1970.
    #[serde(default)]
    pub created: u64,
    /// `sglang`, which clients look for.
    #[serde(default)]
    pub owned_by: Cow<'static, str>,
    /// What it was made from.
    #[serde(default)]
    pub root: Option<String>,
    /// The model an adapter belongs to.
    #[serde(default)]
    pub parent: Option<String>,
    /// Tokens a sequence may have.
    #[serde(default)]
    pub max_model_len: Option<usize>,
}

impl ModelCard {
    /// The card of a model that is no adapter.
    pub fn new(id: &str, created: u64, max_model_len: usize) -> Self {
        Self {
            id: id.to_owned(),
            object: "model".into(),
            created,
            owned_by: "sglang".into(),
            root: Some(id.to_owned()),
            parent: None,
            max_model_len: Some(max_model_len),
        }
    }
}
