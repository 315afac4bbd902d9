//! Comments inside code are at most three lines long; what a file opens with may be longer.

use super::finding::Finding;
use super::tree::{TextFile, Tree};

const LIMIT: usize = 3;
const LANGUAGES: &[(&[&str], &str)] = &[
    (&["rs", "cu", "cuh", "cc", "h", "c"], "//"),
    (&["py", "sh"], "#"),
];
/// What begins like a comment and is none, or says what something is rather than why.
const OTHERS: &[&str] = &["///", "//!", "#!", "#["];

/// Runs of comment lines that are too long.
pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    tree.files().iter().flat_map(long_runs).collect()
}

fn long_runs(file: &TextFile) -> Vec<Finding> {
    let language = LANGUAGES
        .iter()
        .find(|(extensions, _)| file.has_extension(extensions));
    let Some((_, mark)) = language else {
        return Vec::new();
    };
    let is_comment = |line: &str| {
        let line = line.trim();
        line.starts_with(mark) && !OTHERS.iter().any(|other| line.starts_with(other))
    };
    let (mut findings, mut run, mut opened) = (Vec::new(), 0, false);
    for (number, line) in (1..).zip(file.text.lines().chain([""])) {
        if is_comment(line) {
            run += 1;
            continue;
        }
        if run > LIMIT && opened {
            let what = format!("a comment of {run} lines, {LIMIT} are the limit");
            findings.push(Finding::line(&file.path, number - run, what));
        }
        run = 0;
        opened |= !line.trim().is_empty() && !line.starts_with("#!");
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::fixture;

    #[test]
    fn long_comments_are_found_but_not_what_a_file_opens_with() {
        let code = "// a\n// b\n// c\n// d\nint x;\n// 1\n// 2\n// 3\nint y;\n// 1\n// 2\n// 3\n// 4\nint z;\n";
        let script = "#!/bin/sh\n# a\n# b\n# c\n# d\ntrue\n# 1\n# 2\n# 3\n# 4\n";
        let (_folder, tree) = fixture::tree(&[
            ("crates/a/kernels/b.cu", code),
            ("c.sh", script),
            ("d.rs", "fn a() {}\n/// 1\n/// 2\n/// 3\n/// 4\nfn b() {}\n"),
        ]);
        assert_eq!(
            fixture::shown(&check(&tree)),
            [
                "c.sh:7: a comment of 4 lines, 3 are the limit",
                "crates/a/kernels/b.cu:10: a comment of 4 lines, 3 are the limit",
            ]
        );
    }
}
