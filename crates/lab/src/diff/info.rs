//! What servers say about themselves, as far as it is comparable.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{Aspect, Difference};
use crate::run::SubjectFacts;

/// Parts of the answer that change from start to start or say where the server is.
const FLEETING: &[&str] = &[
    "accepted_without_effect",
    "base_url",
    "host",
    "internal_states",
    "launch_command",
    "media_marker",
    "memory_usage",
    "model_path",
    "nccl_port",
    "pid",
    "port",
    "random_seed",
    "served_model_name",
    "startup_time",
    "status",
    "tokenizer_path",
    "uptime",
];

/// Settings that were worked out differently.
pub(super) fn differences(first: &SubjectFacts, second: &SubjectFacts) -> Vec<Difference> {
    let (Some(one), Some(two)) = (&first.info, &second.info) else {
        return Vec::new();
    };
    let (one, two) = (settings(one), settings(two));
    // a setting that only one of them has says that they are different programs, not settings
    let both = one
        .iter()
        .filter_map(|(name, value)| Some((name, value, two.get(name)?)));
    let differing = both.filter(|(_, one, two)| one != two);
    let found = differing.map(|(name, one, two)| Difference {
        aspect: Aspect::Resolved,
        name: name.clone(),
        first: Some(one.clone()),
        second: Some(two.clone()),
    });
    found.collect()
}

/// The plain values at the top of a server's answer.
pub(super) fn settings(info: &Value) -> BTreeMap<String, String> {
    let entries = info.as_object().into_iter().flatten();
    let comparable = entries.filter(|(name, _)| !FLEETING.contains(&name.as_str()));
    let words = comparable.filter_map(|(name, value)| Some((name.clone(), word(value)?)));
    words.collect()
}

fn word(value: &Value) -> Option<String> {
    match value {
        Value::Null => Some("none".to_owned()),
        Value::Bool(on) => Some(on.to_string()),
        Value::Number(number) => Some(number.to_string()),
        Value::String(text) => Some(text.clone()),
        Value::Array(_) | Value::Object(_) => None,
    }
}
