//! Result lines: one JSON object per run, with the bare words that Python writes for numbers.

use std::collections::BTreeMap;

use bench::clock::Nanos;
use bench::record::{Asked, Chunk, Due, Failure, RequestRecord};
use serde_json::{Map, Value};

use super::context::{Context, last_part};
use super::{ImportedRun, load_name};
use crate::figures::Figures;
use crate::finding::{Finding, Kind};
use crate::run::{LoadFacts, Origin, Outcome, Run, identifier};

/// Options that a result line repeats.
const SETTINGS: &[&str] = &[
    "tag",
    "backend",
    "dataset_name",
    "request_rate",
    "max_concurrency",
    "sharegpt_output_len",
    "random_input_len",
    "random_output_len",
    "random_range_ratio",
    "num_prompts",
    "seed",
    "model",
];

/// Figures that vLLM's client calls by other names.
const OTHER_NAMES: &[(&str, &str)] = &[
    ("total_token_throughput", "total_throughput"),
    ("mean_e2el_ms", "mean_e2e_latency_ms"),
    ("median_e2el_ms", "median_e2e_latency_ms"),
    ("std_e2el_ms", "std_e2e_latency_ms"),
    ("p99_e2el_ms", "p99_e2e_latency_ms"),
];

/// What the layout of result lines is called.
pub(super) const LAYOUT: &str = "jsonl";

/// A line that is a result.
pub(super) struct Found {
    object: Map<String, Value>,
}

impl Found {
    /// Reads a line, if it is a result.
    pub(super) fn read(line: &str) -> Option<Self> {
        let line = line.trim();
        if !line.starts_with('{') || !line.contains("\"request_throughput\"") {
            return None;
        }
        let object: Map<String, Value> = serde_json::from_str(&proper(line)).ok()?;
        let whole = object.contains_key("request_throughput") && object.contains_key("completed");
        whole.then_some(Self { object })
    }

    /// The run it tells of.
    pub(super) fn into_run(self, context: &Context<'_>, line: usize, text: &str) -> ImportedRun {
        let settings = SETTINGS.iter().filter_map(|name| {
            let value = self.object.get(*name).filter(|value| !value.is_null())?;
            Some(((*name).to_owned(), value.clone()))
        });
        let mut settings: BTreeMap<String, Value> = settings.collect();
        let provenance = self.object.get("provenance");
        if let Some(seed) = provenance
            .and_then(|facts| facts.get("seed"))
            .filter(|seed| seed.is_number())
        {
            settings.insert("seed".to_owned(), seed.clone());
        }
        let cache = self.object.get("prefix_cache");
        if let Some(state) = cache
            .and_then(|cache| cache.get("at_start"))
            .filter(|state| state.is_string())
        {
            settings.insert("cache_at_start".to_owned(), state.clone());
        }
        let figures = self.figures();
        let info = self.object.get("server_info");
        let info = info.and_then(|info| info.get("before").or(Some(info)));
        let info = info.filter(|info| info.is_object()).cloned();
        let served = info
            .as_ref()
            .and_then(|info| info.get("model_path"))
            .and_then(Value::as_str);
        let word = |name: &str| self.object.get(name).and_then(Value::as_str);
        // vLLM's client says model_id and label
        let named = word("model").or_else(|| word("model_id"));
        let tag = word("tag").or_else(|| word("label"));
        let tag = tag.filter(|tag| !tag.is_empty()).map(str::to_owned);
        let model = named.or(served).map(|path| last_part(path).to_owned());
        let mut subject = context.subject(model);
        let version = info
            .as_ref()
            .and_then(|info| info.get("version"))
            .and_then(Value::as_str);
        if let Some(version) = version {
            subject
                .versions
                .insert("server".to_owned(), version.to_owned());
        }
        subject.info = info;
        let name = load_name(&settings, figures.get("completed"));
        let mut origin = context.origin(line, LAYOUT);
        if let Origin::Imported { note, .. } = &mut origin {
            *note = tag.or(note.take());
        }
        let run = Run {
            id: identifier(&[context.file, &line.to_string(), text]),
            subject,
            load: LoadFacts {
                name,
                command: None,
                settings,
            },
            repeat: 1,
            origin,
            outcome: Outcome::Finished,
            figures,
            machine: None,
            findings: self.warnings(),
        };
        ImportedRun {
            run,
            text: text.to_owned() + "\n",
            records: self.records(),
        }
    }

    /// What the client itself warned of. What figures show as well is found from them.
    fn warnings(&self) -> Vec<Finding> {
        let warnings = self.object.get("warnings").and_then(Value::as_array);
        let texts = warnings.into_iter().flatten().filter_map(Value::as_str);
        let kinds = [
            ("client was the limit", Kind::ClientLimited),
            ("prefix cache", Kind::CacheHits),
            ("tokens by the server", Kind::TokenMismatch),
            ("not steady", Kind::ColdRun),
            ("is not the target", Kind::ClientLimited),
        ];
        let findings = texts.filter_map(|text| {
            let (_, kind) = kinds.iter().find(|(part, _)| text.contains(part))?;
            Some(Finding::new(*kind, text))
        });
        findings.collect()
    }

    fn figures(&self) -> Figures {
        let mut figures = Figures::default();
        for (name, value) in &self.object {
            let setting = SETTINGS.contains(&name.as_str());
            if let Some(number) = value.as_f64().filter(|_| !setting) {
                let other = OTHER_NAMES.iter().find(|(other, _)| other == name);
                figures.set(other.map_or(name.as_str(), |(_, ours)| ours), number);
            }
        }
        let nested = [
            (
                "cache_report",
                "total_prompt_tokens",
                "cache_prompt_tokens",
                1.0,
            ),
            (
                "cache_report",
                "total_cached_tokens",
                "cache_cached_tokens",
                1.0,
            ),
            ("cache_report", "cache_hit_rate_pct", "cache_hit_rate", 1.0),
            ("prefix_cache", "hit_rate", "cache_hit_rate", 100.0),
            (
                "steady_state",
                "output_throughput",
                "steady_output_throughput",
                1.0,
            ),
            ("client", "busy_share", "client_busy_share", 1.0),
        ];
        for (part, name, figure, times) in nested {
            let number = self.object.get(part).and_then(|part| part.get(name));
            if let Some(number) = number.and_then(Value::as_f64) {
                figures.set(figure, number * times);
            }
        }
        if let Some(asked) = figures.get("total_input_tokens_dataset") {
            figures.set("total_input_tokens", asked);
        }
        figures
    }

    /// The requests, when the line has details. Sending times are not in it and stay zero.
    fn records(&self) -> Vec<RequestRecord> {
        let list = |name: &str| self.object.get(name).and_then(Value::as_array);
        let (Some(firsts), Some(gaps)) = (list("ttfts"), list("itls")) else {
            return Vec::new();
        };
        let whole = |name: &str, at: usize| {
            let value = list(name).and_then(|values| values.get(at));
            value.and_then(Value::as_u64).unwrap_or(0)
        };
        let records = firsts
            .iter()
            .zip(gaps)
            .enumerate()
            .map(|(row, (first, gaps))| {
                let asked = Asked {
                    prompt_tokens: whole("input_lens", row),
                    text_tokens: whole("input_lens", row),
                    vision_tokens: 0,
                    output_tokens: whole("output_lens", row),
                };
                let mut record = RequestRecord::begun(row, 0, Due::default(), Nanos(0), asked);
                let gaps = gaps
                    .as_array()
                    .into_iter()
                    .flatten()
                    .filter_map(Value::as_f64);
                let mut moment = 0.0;
                for (at, gap) in first.as_f64().into_iter().chain(gaps).enumerate() {
                    moment += gap;
                    record.chunks.push(Chunk {
                        at: Nanos::default().plus_seconds(moment),
                        tokens: at as u32 + 1,
                        text_end: 0,
                    });
                }
                record.finished = Nanos::default().plus_seconds(moment);
                let error = list("errors").and_then(|errors| errors.get(row));
                let message = error
                    .and_then(Value::as_str)
                    .filter(|message| !message.is_empty());
                record.failure = message.map(|message| Failure::InStream {
                    message: message.to_owned(),
                });
                record
            });
        records.collect()
    }
}

/// The line with `Infinity` and `NaN` outside of texts made into JSON.
fn proper(line: &str) -> String {
    let mut proper = String::with_capacity(line.len());
    let mut rest = line;
    while let Some(at) = rest.find(['"', 'I', 'N', '-']) {
        proper.push_str(&rest[..at]);
        rest = &rest[at..];
        if rest.starts_with('"') {
            let end = end_of_text(rest);
            proper.push_str(&rest[..end]);
            rest = &rest[end..];
            continue;
        }
        let words = [
            ("Infinity", "\"inf\""),
            ("-Infinity", "\"-inf\""),
            ("NaN", "null"),
        ];
        let word = words.iter().find(|(word, _)| rest.starts_with(word));
        let (taken, written) = word.map_or((1, &rest[..1]), |(word, json)| (word.len(), *json));
        proper.push_str(written);
        rest = &rest[taken..];
    }
    proper + rest
}

/// Where a text ends that begins with a quote; the end of the line when it is never closed.
fn end_of_text(text: &str) -> usize {
    let mut escaped = false;
    for (at, letter) in text.char_indices().skip(1) {
        match letter {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => return at + 1,
            _ => {}
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bare_words_become_json() {
        let line =
            r#"{"a": Infinity, "b": -Infinity, "c": NaN, "d": -1.5, "e": "NaN \" Infinity"}"#;
        let json: Value = serde_json::from_str(&proper(line)).unwrap();
        let expected = serde_json::json!({
            "a": "inf", "b": "-inf", "c": null, "d": -1.5, "e": "NaN \" Infinity"
        });
        assert_eq!(json, expected);
        assert_eq!(proper("{\"never closed"), "{\"never closed");
    }
}
