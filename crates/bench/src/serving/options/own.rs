//! Options that only this client has. They must be spelled in full, so that no prefix that was
//! unambiguous to the reference becomes ambiguous here.

use crate::client::Trust;
use flags::{FlagError, FlagSpec, Group, Parsed, Preset, Takes};

const MANNER: &[FlagSpec] = &[
    FlagSpec::switch(
        "strict",
        "Measure properly: all defects of the reference's arithmetic mended, failures counted.",
    ),
    FlagSpec::choice(
        "layout",
        &["A", "B", "C", "D", "E"],
        "The printed table's layout.",
    ),
    FlagSpec::text(
        "reference",
        "The release whose manners to take on, such as 0.5.6 or 0.5.23.",
    ),
    FlagSpec::choice(
        "client",
        &["sglang", "lmdeploy"],
        "Whose client to imitate.",
    )
    .default(Preset::Text("sglang")),
    FlagSpec::text("plot", "Write a page with plots to this file."),
    FlagSpec::switch("live", "Show a live view while the load lasts."),
    Trust::FLAG,
];

const STRICT: &[FlagSpec] = &[
    FlagSpec::choice(
        "pace",
        &["poisson", "constant", "gamma"],
        "How arrivals at a rate are spread.",
    ),
    FlagSpec::float(
        "burstiness",
        "Shape of gamma arrivals: below 1 clustered, above 1 even.",
    ),
    FlagSpec::text("ramp", "A rate that changes, as FROM:TO:SECONDS."),
    FlagSpec::float(
        "duration",
        "Send for this many seconds; the dataset is repeated as needed.",
    ),
    FlagSpec::float(
        "stop-failed-share",
        "Stop when more than this share of requests failed.",
    ),
    FlagSpec::float(
        "request-timeout",
        "Give up on a request after this many seconds.",
    ),
    FlagSpec::text(
        "slo",
        "Service objectives, such as ttft:200,tpot:20,e2el:5000 (milliseconds).",
    ),
    FlagSpec::switch(
        "find-max-rate",
        "Search for the highest rate that meets the objectives.",
    ),
    FlagSpec::float("attainment", "The share of requests that must meet them.")
        .default(Preset::Float(0.99)),
    FlagSpec::choice(
        "cache",
        &["cold", "warm", "as-is"],
        "The prefix cache's state at the start.",
    ),
    FlagSpec::text(
        "records",
        "Keep one line per request in this file while the load lasts.",
    ),
    FlagSpec::text(
        "resume",
        "Go on with an interrupted run from its record file.",
    ),
    FlagSpec::float(
        "fail-above",
        "Exit with 1 when more than this share of requests failed.",
    )
    .default(Preset::Float(0.0)),
];

/// Groups of our own options, for help.
pub(super) const GROUPS: &[Group<'static>] = &[
    Group {
        title: "manner (this client only)",
        flags: MANNER,
    },
    Group {
        title: "strict measurement (this client only; any of these implies --strict)",
        flags: STRICT,
    },
];

/// Whether any option was given that the reference has no equal for.
pub(super) fn implies_strict(parsed: &Parsed) -> bool {
    parsed.switch("strict") || STRICT.iter().any(|flag| parsed.given(flag.name))
}

/// Takes our own options out of a command line: them, and the words that remain.
pub(super) fn split(args: &[String]) -> Result<(Parsed, Vec<&String>), FlagError> {
    let table: Vec<FlagSpec> = GROUPS
        .iter()
        .flat_map(|group| group.flags)
        .copied()
        .collect();
    let mut own = Vec::new();
    let mut rest = Vec::new();
    let mut words = args.iter();
    while let Some(word) = words.next() {
        let name = word.strip_prefix("--").unwrap_or_default();
        let (name, has_value) = name
            .split_once('=')
            .map_or((name, false), |(name, _)| (name, true));
        match table.iter().find(|flag| flag.name == name) {
            None => rest.push(word),
            Some(flag) => {
                own.push(word);
                if flag.takes == Takes::One && !has_value {
                    own.extend(words.next());
                }
            }
        }
    }
    Ok((flags::parse(&table, &own)?, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<String> {
        line.split(' ').map(str::to_owned).collect()
    }

    #[test]
    fn our_options_are_taken_out_and_the_rest_stays_in_order() {
        let args = words("--backend vllm --layout E --re 5 --slo=ttft:1 --lora-name a b --strict");
        let (own, rest) = split(&args).unwrap();
        assert_eq!(
            (own.text("layout"), own.text("slo")),
            (Some("E"), Some("ttft:1"))
        );
        assert!(implies_strict(&own));
        let rest: Vec<&str> = rest.iter().map(|word| word.as_str()).collect();
        assert_eq!(
            rest,
            ["--backend", "vllm", "--re", "5", "--lora-name", "a", "b"]
        );
    }

    #[test]
    fn imitation_alone_is_not_strict() {
        let args = words("--layout A --plot x.html --reference 0.5.23");
        assert!(!implies_strict(&split(&args).unwrap().0));
        let args = words("--pace constant");
        assert!(implies_strict(&split(&args).unwrap().0));
    }

    #[test]
    fn a_prefix_of_ours_is_none_of_ours() {
        let args = words("--lay E");
        assert_eq!(split(&args).unwrap().1.len(), 2);
    }
}
