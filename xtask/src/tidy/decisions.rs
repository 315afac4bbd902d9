//! A decision record is one page with four headings, numbered without gaps.

use super::finding::Finding;
use super::tree::Tree;

const FOLDER: &str = "docs/adr/";
const HEADINGS: &[&str] = &["Context", "Decision", "Consequence", "Alternatives"];
/// One page.
const LIMIT: usize = 80;

/// Records without a heading, too long, or out of order.
pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    let records = tree
        .under(FOLDER)
        .filter(|file| file.has_extension(&["md"]));
    for (file, number) in records.zip(1..) {
        let name = &file.path[FOLDER.len()..];
        if !name.starts_with(&format!("{number:04}-")) {
            let what = format!("expected number {number:04} here");
            findings.push(Finding::file(&file.path, what));
        }
        let missing = HEADINGS.iter().filter(|heading| {
            let wanted = format!("## {heading}");
            !file.text.lines().any(|line| line.trim_end() == wanted)
        });
        findings
            .extend(missing.map(|heading| {
                Finding::file(&file.path, format!("has no heading `## {heading}`"))
            }));
        let lines = file.text.lines().count();
        if lines > LIMIT {
            let what = format!("{lines} lines, a record has at most {LIMIT}");
            findings.push(Finding::file(&file.path, what));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::fixture;

    #[test]
    fn a_missing_heading_and_a_gap_in_the_numbers_are_found() {
        let whole = "# 1\n## Context\n## Decision\n## Consequence\n## Alternatives\n";
        let cut = "# 3\n## Context\n### Decision\n## Consequence\n## Alternatives\n";
        let (_folder, tree) =
            fixture::tree(&[("docs/adr/0001-a.md", whole), ("docs/adr/0003-b.md", cut)]);
        assert_eq!(
            fixture::shown(&check(&tree)),
            [
                "docs/adr/0003-b.md: expected number 0002 here",
                "docs/adr/0003-b.md: has no heading `## Decision`",
            ]
        );
    }
}
