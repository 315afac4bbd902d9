//! Settings that did nothing.

use serde_json::Value;

use super::info;
use crate::finding::{Finding, Kind};
use crate::run::SubjectFacts;

/// Settings that are known to do nothing under most circumstances.
const KNOWN: &[(&str, &str)] = &[(
    "SGLANG_ENABLE_FLASHINFER_GEMM",
    "acts on Blackwell GPUs only in the releases that know it",
)];

/// Settings of a subject that had no effect, by its own word or by what is known.
pub fn without_effect(subject: &SubjectFacts) -> Vec<Finding> {
    let mut told: Vec<String> = Vec::new();
    let info = subject.info.as_ref();
    let idle = info.and_then(|info| info.get("accepted_without_effect"));
    for (flag, reason) in idle.and_then(Value::as_object).into_iter().flatten() {
        let reason = reason.as_str().unwrap_or("no reason was given");
        told.push(format!("{flag} had no effect: {reason}"));
    }
    told.extend(overruled(subject));
    for (name, reason) in KNOWN {
        if let Some(value) = subject.environment.get(*name) {
            told.push(format!("{name}={value} {reason}"));
        }
    }
    told.into_iter()
        .map(|text| Finding::new(Kind::NoEffect, text))
        .collect()
}

/// Flags whose value is not the one that the server says it uses.
fn overruled(subject: &SubjectFacts) -> Vec<String> {
    let Some((command, info)) = subject.command.as_ref().zip(subject.info.as_ref()) else {
        return Vec::new();
    };
    let resolved = info::settings(info);
    let flags = command.flags.iter().filter_map(|(flag, words)| {
        let key = flag.trim_start_matches('-').replace('-', "_");
        let used = resolved.get(&key)?;
        let asked = match words.as_slice() {
            [] => "true",
            [word] => word.as_str(),
            _ => return None,
        };
        let same = asked == used
            || asked
                .parse::<f64>()
                .ok()
                .zip(used.parse().ok())
                .is_some_and(|(a, b): (f64, f64)| (a - b).abs() <= 1e-9 * a.abs());
        (!same).then(|| format!("{flag} {asked} was asked for, the server uses {used}"))
    });
    flags.collect()
}
