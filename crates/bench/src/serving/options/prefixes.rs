//! Prefixes as the imitated release reads them: options of later releases do not make them ambiguous.

use super::table;
use crate::release::Release;
use flags::FlagSpec;

/// The words, with each prefix that means one option of this release spelled out.
pub(super) fn spelled_out(words: &[&String], release: Release) -> Vec<String> {
    words
        .iter()
        .map(|word| meant(word, release).unwrap_or_else(|| (*word).clone()))
        .collect()
}

fn meant(word: &str, release: Release) -> Option<String> {
    let option = word.strip_prefix("--")?;
    let (prefix, value) = match option.split_once('=') {
        Some((prefix, _)) => (prefix, &option[prefix.len()..]),
        None => (option, ""),
    };
    let flags = || table::GROUPS.iter().flat_map(|group| group.flags);
    let is_exact = |flag: &FlagSpec| flag.name == prefix || flag.aliases.contains(&prefix);
    if prefix.is_empty() || flags().any(is_exact) {
        return None;
    }
    let mut known = flags().filter(|flag| is_known(flag, release) && flag.name.starts_with(prefix));
    let only = known.next().filter(|_| known.next().is_none())?;
    Some(format!("--{}{value}", only.name))
}

/// Whether a release has this option.
pub(super) fn is_known(flag: &FlagSpec, release: Release) -> bool {
    let since = flag.since;
    since.is_empty() || since.parse::<Release>().is_ok_and(|since| release >= since)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(word: &str, release: &str) -> String {
        let word = word.to_owned();
        spelled_out(&[&word], release.parse().unwrap()).remove(0)
    }

    #[test]
    fn a_prefix_means_what_it_meant_to_the_release() {
        for (word, release, meant) in [
            ("--flush", "0.5.6", "--flush-cache"),
            ("--flush", "0.5.23", "--flush"),
            ("--profile-sta", "0.5.6", "--profile-stages"),
            ("--profile-sta=x", "0.5.7", "--profile-stages=x"),
            ("--flush-cache", "0.5.23", "--flush-cache"),
            ("--random", "0.5.6", "--random"),
            ("--gsp-send-routing-id", "0.5.6", "--gsp-send-routing-id"),
            ("--nonsense", "0.5.6", "--nonsense"),
            ("--", "0.5.6", "--"),
            ("value", "0.5.6", "value"),
        ] {
            assert_eq!(read(word, release), meant, "{word} of {release}");
        }
    }
}
