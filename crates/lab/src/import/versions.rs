//! Versions that a text names and its commands contradict.

use super::context::{Context, last_part};

/// Sentences about versions in titles that no command ran.
pub(super) fn contradictions(lines: &[&str], context: &Context<'_>) -> Vec<String> {
    let images = context.images.iter().filter_map(|image| {
        let (name, tag) = image.rsplit_once(':')?;
        let version = version_at_start(tag)?;
        Some((last_part(name).to_lowercase(), version))
    });
    let packages = context.versions.iter();
    let packages = packages.map(|(name, version)| (name.to_lowercase(), version.clone()));
    let ran: Vec<(String, String)> = images.chain(packages).collect();
    let mut told = Vec::new();
    for line in lines.iter().filter(|line| is_title(line)) {
        for (name, version) in mentions(line) {
            let mut versions = ran
                .iter()
                .filter(|(other, _)| *other == name.to_lowercase());
            let Some((_, first)) = versions.next() else {
                continue;
            };
            if *first != version && versions.all(|(_, other)| *other != version) {
                told.push(format!(
                    "the text names {name} {version}, its commands ran {first}"
                ));
            }
        }
    }
    told.dedup();
    told
}

fn is_title(line: &str) -> bool {
    let line = line.trim_start();
    line.starts_with("# ") || line.starts_with("## ") || line.starts_with("- [")
}

/// Words followed by a version such as `v0.5.1`.
fn mentions(line: &str) -> Vec<(&str, String)> {
    let words: Vec<&str> = line
        .split(|letter: char| letter.is_whitespace() || "[]()#".contains(letter))
        .filter(|word| !word.is_empty())
        .collect();
    let pairs = words.windows(2).filter_map(|pair| {
        let version = version_at_start(pair[1])?;
        pair[0]
            .chars()
            .all(char::is_alphanumeric)
            .then_some((pair[0], version))
    });
    pairs.collect()
}

/// `0.5.1` out of `v0.5.1-cu126`.
fn version_at_start(text: &str) -> Option<String> {
    let text = text.strip_prefix('v').unwrap_or(text);
    let end = text.find(|letter: char| !letter.is_ascii_digit() && letter != '.');
    let version = text[..end.unwrap_or(text.len())].trim_end_matches('.');
    let numbers = version.split('.').filter(|part| !part.is_empty()).count();
    (numbers > 1 && version.starts_with(|letter: char| letter.is_ascii_digit()))
        .then(|| version.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_found_behind_names() {
        assert_eq!(version_at_start("v0.5.1-cu126").as_deref(), Some("0.5.1"));
        assert_eq!(version_at_start("latest"), None);
        assert_eq!(version_at_start("12"), None);
        let line = "  - [Server v0.10.1](#server-v0101)";
        assert_eq!(mentions(line), [("Server", "0.10.1".to_owned())]);
    }
}
