//! Small trees in temporary folders, to break rules in.

use std::fs;

use tempfile::TempDir;

use super::finding::Finding;
use super::tree::Tree;

/// A repository with these files; it lives as long as the folder.
pub(crate) fn tree(files: &[(&str, &str)]) -> (TempDir, Tree) {
    let folder = tempfile::tempdir().unwrap();
    for (path, text) in files {
        let path = folder.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    let tree = Tree::read(folder.path()).unwrap();
    (folder, tree)
}

/// The findings as a person sees them.
pub(crate) fn shown(findings: &[Finding]) -> Vec<String> {
    findings.iter().map(ToString::to_string).collect()
}
