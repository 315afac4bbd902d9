//! A client's options from its command line, and the name of a load made of them.

use std::collections::BTreeMap;

use serde_json::Value;

use super::python;
use crate::command_line::CommandLine;

/// Options that people abbreviate, in the spelling of an echo.
const NAMES: &[&str] = &[
    "backend",
    "dataset_name",
    "dataset_path",
    "max_concurrency",
    "num_prompts",
    "random_input_len",
    "random_output_len",
    "random_range_ratio",
    "request_rate",
    "warmup_requests",
];

/// The options of a command line by their names in an echo.
pub(super) fn from_flags(command: &CommandLine) -> BTreeMap<String, Value> {
    let settings = command.flags.iter().map(|(flag, words)| {
        let name = flag.trim_start_matches('-').replace('-', "_");
        let mut meant = NAMES.iter().filter(|known| known.starts_with(&name));
        let name = match (meant.next(), meant.next()) {
            (Some(known), None) => (*known).to_owned(),
            _ => name,
        };
        let value = match words.as_slice() {
            [] => Value::Bool(true),
            [word] => python::literal(word).unwrap_or_else(|| Value::String(word.clone())),
            words => Value::from(words.to_vec()),
        };
        (name, value)
    });
    settings.collect()
}

/// A name made of the options that decide how much work a load is.
pub fn load_name(settings: &BTreeMap<String, Value>, completed: Option<f64>) -> String {
    let mut parts = Vec::new();
    if let Some(dataset) = settings.get("dataset_name").and_then(Value::as_str) {
        parts.push(dataset.to_owned());
        let length = |name: &str| settings.get(name).and_then(Value::as_i64);
        let lengths = length("random_input_len").zip(length("random_output_len"));
        if let Some((input, output)) = lengths.filter(|_| dataset.starts_with("random")) {
            parts.push(format!("{input}/{output}"));
        }
    }
    let number = |name: &str| settings.get(name).and_then(number_of);
    if let Some(count) = number("num_prompts").or(completed) {
        parts.push(format!("n={count}"));
    }
    if let Some(rate) = number("request_rate") {
        parts.push(format!("rate={rate}"));
    }
    if let Some(limit) = number("max_concurrency") {
        parts.push(format!("cap={limit}"));
    }
    parts.join(" ")
}

/// A number, or a word that is one (`inf`).
pub(super) fn number_of(value: &Value) -> Option<f64> {
    match value {
        Value::Number(number) => number.as_f64(),
        Value::String(word) => word.parse().ok(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn abbreviations_stand_for_their_options() {
        let line = "--num-prompt 256 --random-input 1000 --random-output 10 --request-rate inf \
            --dataset-name random --max-concurrency 32 --flush-cache --lora-name a b";
        let settings = from_flags(&CommandLine::flags_only(line));
        assert_eq!(settings["num_prompts"], json!(256));
        assert_eq!(settings["flush_cache"], json!(true));
        assert_eq!(settings["lora_name"], json!(["a", "b"]));
        let name = load_name(&settings, None);
        assert_eq!(name, "random 1000/10 n=256 rate=inf cap=32");
    }

    #[test]
    fn a_load_of_which_little_is_known_has_a_name() {
        assert_eq!(load_name(&BTreeMap::new(), Some(100.0)), "n=100");
    }
}
