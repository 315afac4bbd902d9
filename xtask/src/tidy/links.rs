//! Links between documents lead to a document that is there, and to a heading that it has.

use std::collections::{BTreeMap, BTreeSet};

use super::finding::Finding;
use super::tree::Tree;

/// Links to documents or headings that are not there.
pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let documents: BTreeMap<&str, BTreeSet<String>> = tree
        .files()
        .iter()
        .filter(|file| file.has_extension(&["md"]))
        .map(|file| (file.path.as_str(), anchors(&file.text)))
        .collect();
    let mut findings = Vec::new();
    for file in tree
        .files()
        .iter()
        .filter(|file| file.has_extension(&["md"]))
    {
        for (number, line) in (1..).zip(file.text.lines()) {
            for link in links(line) {
                if let Some(what) = broken(&documents, &file.path, link) {
                    findings.push(Finding::line(&file.path, number, what));
                }
            }
        }
    }
    findings
}

/// What is wrong with a link from a document; other files and other sites are not looked at.
fn broken(documents: &BTreeMap<&str, BTreeSet<String>>, from: &str, link: &str) -> Option<String> {
    let (path, anchor) = link.split_once('#').unwrap_or((link, ""));
    if path.contains("://") || !(path.is_empty() || path.rsplit('.').next() == Some("md")) {
        return None;
    }
    let target = if path.is_empty() {
        from.to_owned()
    } else {
        joined(from, path)
    };
    let Some(headings) = documents.get(target.as_str()) else {
        return Some(format!("leads to {target}, which is not there"));
    };
    (!anchor.is_empty() && !headings.contains(anchor))
        .then(|| format!("leads to {target}, which has no heading for #{anchor}"))
}

/// The path that a link of a document means, from the root.
fn joined(from: &str, path: &str) -> String {
    let mut parts: Vec<&str> = from.split('/').collect();
    parts.pop();
    for part in path.split('/') {
        match part {
            "." => {}
            ".." => drop(parts.pop()),
            _ => parts.push(part),
        }
    }
    parts.join("/")
}

/// What stands in `](…)`, title and all else after a space left out.
fn links(line: &str) -> impl Iterator<Item = &str> {
    line.split("](").skip(1).filter_map(|rest| {
        let (link, _) = rest.split_once(')')?;
        link.split_whitespace().next()
    })
}

/// The names by which headings are linked: small letters, hyphens for spaces, no other signs.
fn anchors(text: &str) -> BTreeSet<String> {
    let headings = text.lines().filter(|line| line.starts_with('#'));
    let anchor = |heading: &str| {
        let title = heading.trim_start_matches('#').trim().to_lowercase();
        let kept = title.chars().filter_map(|sign| match sign {
            ' ' => Some('-'),
            '-' | '_' => Some(sign),
            _ => sign.is_alphanumeric().then_some(sign),
        });
        kept.collect()
    };
    headings.map(anchor).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::fixture;

    #[test]
    fn a_missing_document_and_a_missing_heading_are_found() {
        let (_folder, tree) = fixture::tree(&[
            (
                "README.md",
                "# A\n[a](docs/a.md) [b](docs/b.md#on-a-gpu-fast) [c](docs/b.md#slow) [d](#a) [e](#b)\n",
            ),
            (
                "docs/b.md",
                "## On a GPU: fast\n[up](../README.md#a) [site](https://b.md/x.md) [code](../src) ![p](p.png)\n",
            ),
        ]);
        assert_eq!(
            fixture::shown(&check(&tree)),
            [
                "README.md:2: leads to docs/a.md, which is not there",
                "README.md:2: leads to docs/b.md, which has no heading for #slow",
                "README.md:2: leads to README.md, which has no heading for #b",
            ]
        );
    }
}
