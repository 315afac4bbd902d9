//! Nothing in the tree knows on which machine it was written.

use super::finding::Finding;
use super::tree::Tree;

/// First folders of absolute paths that exist on somebody's machine only.
const FOLDERS: &[&str] = &["work", "root", "home"];

/// Lines with such a path.
pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in tree.files() {
        for (number, line) in file.text.lines().enumerate() {
            if let Some(path) = machine_path(line) {
                let what = format!("`{path}…` is a path of one machine");
                findings.push(Finding::line(&file.path, number + 1, what));
            }
        }
    }
    findings
}

fn machine_path(line: &str) -> Option<String> {
    let paths = FOLDERS.iter().map(|folder| format!("/{folder}/"));
    paths.into_iter().find(|path| {
        line.match_indices(path.as_str()).any(|(at, _)| {
            let before = line[..at].chars().next_back();
            !before.is_some_and(|c| c.is_alphanumeric() || "._-~}/)".contains(c))
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::fixture;

    #[test]
    fn a_path_of_one_machine_is_found_and_part_of_a_path_is_not() {
        let bad = format!("first\ncd {0}home{0}me{0}src\n", '/');
        let (_folder, tree) = fixture::tree(&[
            ("docs/bad.md", &bad),
            ("docs/good.md", "a/work/b ~/home/ ./root/x\n"),
        ]);
        let expected = format!("docs/bad.md:2: `{0}home{0}…` is a path of one machine", '/');
        assert_eq!(fixture::shown(&check(&tree)), [expected]);
    }
}
