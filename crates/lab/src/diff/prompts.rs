//! The same prompts sent twice to a server that remembers them.

use crate::finding::{Finding, Kind};
use crate::metric::Better;
use crate::run::{LoadFacts, Origin, Run, ServerUse, SubjectFacts};
use crate::statistics::cold_start;

/// Beginnings of flags that turn the prefix cache off.
const CACHE_OFF: &[&str] = &[
    "--disable-radix",
    "--no-enable-prefix-caching",
    "--no-cache-prompt",
];

/// Whether repeats of a load find their prompts in the cache of a server that is kept.
pub fn will_repeat_prompts(subject: &SubjectFacts, load: &LoadFacts) -> bool {
    let flags = subject.command.iter().flat_map(|command| &command.flags);
    let mut flags = flags.map(|(flag, _)| flag.as_str());
    let cache_off = flags.any(|flag| CACHE_OFF.iter().any(|off| flag.starts_with(off)));
    let on = |name: &str| load.settings.get(name).and_then(serde_json::Value::as_bool);
    let cold = |name: &str| {
        load.word(name)
            .is_some_and(|state| state.starts_with("cold"))
    };
    let flushed = on("flush_cache") == Some(true) || cold("cache") || cold("cache_at_start");
    !cache_off && !flushed
}

/// Says so when runs of one load on one subject sent the same prompts again, with what it did to the
/// time to the first token. `runs` are in the order they were made. Nothing is said of runs whose seed
/// or whose server's command was not recorded.
pub fn repeated_prompts(runs: &[&Run]) -> Option<Finding> {
    let first = runs.first()?;
    let seed = |run: &Run| run.load.number("seed").map(|seed| seed.to_string());
    // a command without a seed has its client's
    let same_seed = |run: &Run| {
        let commands = first.load.command.is_some() && run.load.command.is_some();
        seed(run) == seed(first) && (seed(first).is_some() || commands)
    };
    let mut later = runs.iter().skip(1);
    let again = later.any(|run| same_seed(run) && may_be_kept(run));
    let known = first.load.word("dataset_name").is_some() && first.subject.command.is_some();
    if !again || !known || !will_repeat_prompts(&first.subject, &first.load) {
        return None;
    }
    let values = runs
        .iter()
        .filter_map(|run| run.figures.get("mean_ttft_ms"));
    let values: Vec<f64> = values.collect();
    let faster = cold_start(&values, Better::Lower).map(|cold| {
        let (first, later) = (cold.first, cold.later);
        format!(
            "; the first token took {first:.0} ms, later {later:.0} ms, part of which may be hits"
        )
    });
    let seed = seed(first).map_or("the same seed".to_owned(), |seed| format!("seed {seed}"));
    let text = format!(
        "repeats on {} send the same prompts ({seed}) to a server with its prefix cache on{}",
        first.subject.name,
        faster.unwrap_or_default()
    );
    Some(Finding::new(Kind::RepeatedPrompts, text))
}

fn may_be_kept(run: &Run) -> bool {
    match &run.origin {
        Origin::Measured { server, .. } => *server == ServerUse::Kept,
        Origin::Imported { .. } => true,
    }
}
