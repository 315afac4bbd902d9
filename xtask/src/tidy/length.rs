//! A file that outgrows its limit is split before it lands.

use super::finding::Finding;
use super::tree::Tree;

const LIMIT: usize = 500;
const CODE: &[&str] = &["rs", "cu", "cuh", "py", "sh"];
/// Documents that must stay readable in one sitting.
const DOCUMENTS: &[(&str, usize)] = &[("ARCHITECTURE.md", 300)];

/// Files of code over the limit, and documents over theirs.
pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let limit_of = |path: &str| {
        let document = DOCUMENTS.iter().find(|(name, _)| *name == path);
        document.map(|(_, limit)| *limit)
    };
    let files = tree.files().iter().filter_map(|file| {
        let limit = limit_of(&file.path).or(file.has_extension(CODE).then_some(LIMIT))?;
        let lines = file.text.lines().count();
        let what = format!("{lines} lines, the limit is {limit}");
        (lines > limit).then(|| Finding::file(&file.path, what))
    });
    files.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::fixture;

    #[test]
    fn a_long_file_is_found_and_a_long_list_of_data_is_not() {
        let lines = "x\n".repeat(501);
        let (_folder, tree) = fixture::tree(&[
            ("crates/a/src/lib.rs", &lines),
            ("crates/a/src/short.rs", "x\n"),
            ("crates/a/tests/data.json", &lines),
            ("ARCHITECTURE.md", &lines),
        ]);
        assert_eq!(
            fixture::shown(&check(&tree)),
            [
                "ARCHITECTURE.md: 501 lines, the limit is 300",
                "crates/a/src/lib.rs: 501 lines, the limit is 500",
            ]
        );
    }
}
