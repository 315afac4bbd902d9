//! A module is named after what it holds, never after nothing in particular.

use super::finding::Finding;
use super::tree::Tree;

const EMPTY_NAMES: &[&str] = &["utils", "util", "common", "helpers", "helper", "misc"];

/// Rust files and folders with such a name. CUDA headers may live in `kernels/common`.
pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let named = tree.rust().filter_map(|file| {
        let stem = file.path.strip_suffix(".rs")?;
        let empty = stem.split('/').find(|part| EMPTY_NAMES.contains(part))?;
        let what = format!("`{empty}` names no concept");
        Some(Finding::file(&file.path, what))
    });
    named.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::fixture;

    #[test]
    fn a_module_called_utils_is_found() {
        let (_folder, tree) = fixture::tree(&[
            ("crates/a/src/utils.rs", ""),
            ("crates/a/src/helpers/x.rs", ""),
            ("crates/a/tests/common/mod.rs", ""),
            ("crates/a/src/common_prefix.rs", ""),
            ("crates/cuda/kernels/common/vec.cuh", ""),
        ]);
        assert_eq!(
            fixture::shown(&check(&tree)),
            [
                "crates/a/src/helpers/x.rs: `helpers` names no concept",
                "crates/a/src/utils.rs: `utils` names no concept",
                "crates/a/tests/common/mod.rs: `common` names no concept",
            ]
        );
    }
}
