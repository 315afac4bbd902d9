//! No code that says "later": no `todo!`, and no test that is skipped without a reason.

use super::finding::Finding;
use super::rust_text::code_only;
use super::tree::Tree;

const UNFINISHED: &[(&str, &str)] = &[
    ("todo!", "finish it or leave it out"),
    ("unimplemented!", "finish it or leave it out"),
    ("#[ignore]", "say why: #[ignore = \"reason\"]"),
];

/// Lines that hold one of these outside comments and strings.
pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in tree.rust() {
        for (number, line) in code_only(&file.text).lines().enumerate() {
            let held = UNFINISHED.iter().filter(|(mark, _)| line.contains(mark));
            findings.extend(held.map(|(mark, advice)| {
                Finding::line(&file.path, number + 1, format!("`{mark}`: {advice}"))
            }));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::fixture;

    #[test]
    fn unfinished_code_and_mute_skips_are_found() {
        let source =
            "fn a() { todo!() }\n// todo!()\nlet x = \"todo!\";\n#[ignore]\n#[ignore = \"slow\"]\n";
        let (_folder, tree) = fixture::tree(&[("crates/a/src/lib.rs", source)]);
        assert_eq!(
            fixture::shown(&check(&tree)),
            [
                "crates/a/src/lib.rs:1: `todo!`: finish it or leave it out",
                "crates/a/src/lib.rs:4: `#[ignore]`: say why: #[ignore = \"reason\"]",
            ]
        );
    }
}
