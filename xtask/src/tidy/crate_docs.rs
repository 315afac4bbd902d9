//! Every crate opens with what it does and what it refuses to do: at least two sentences.

use super::finding::Finding;
use super::tree::{TextFile, Tree};

/// Crate roots whose first lines say less than that.
pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let roots = tree.rust().filter(|file| is_crate_root(tree, file));
    let findings = roots.filter_map(|file| {
        let sentences = sentences(&opening(&file.text));
        let what = format!("opens with {sentences} sentences of `//!`, at least 2 are wanted");
        (sentences < 2).then(|| Finding::line(&file.path, 1, what))
    });
    findings.collect()
}

fn is_crate_root(tree: &Tree, file: &TextFile) -> bool {
    match file.path.strip_suffix("src/main.rs") {
        Some(folder) => tree.get(&format!("{folder}src/lib.rs")).is_none(),
        None => file.path.ends_with("/src/lib.rs"),
    }
}

/// The `//!` lines at the very start, joined.
fn opening(source: &str) -> String {
    let lines = source.lines().map_while(|line| line.strip_prefix("//!"));
    lines.collect::<Vec<_>>().join(" ")
}

fn sentences(text: &str) -> usize {
    let ends = text.split_whitespace().filter(|word| {
        let word = word.trim_end_matches([')', '"', '`', '*']);
        word.ends_with(['.', '!', '?']) && word.chars().any(char::is_alphanumeric)
    });
    ends.count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::fixture;

    #[test]
    fn a_crate_that_says_too_little_is_found() {
        let (_folder, tree) = fixture::tree(&[
            (
                "crates/good/src/lib.rs",
                "//! Does a.b things.\n//!\n//! Never\n//! opens files.\n",
            ),
            ("crates/mute/src/lib.rs", "pub mod x;\n"),
            (
                "crates/terse/src/lib.rs",
                "//! One sentence, however long it may be.\n",
            ),
            ("crates/tool/src/main.rs", "//! A tool\n"),
            ("crates/good/src/main.rs", ""),
        ]);
        assert_eq!(
            fixture::shown(&check(&tree)),
            [
                "crates/mute/src/lib.rs:1: opens with 0 sentences of `//!`, at least 2 are wanted",
                "crates/terse/src/lib.rs:1: opens with 1 sentences of `//!`, at least 2 are wanted",
                "crates/tool/src/main.rs:1: opens with 0 sentences of `//!`, at least 2 are wanted",
            ]
        );
    }
}
