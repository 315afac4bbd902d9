//! The text files of the repository, read once.

use std::fs;
use std::path::Path;

use anyhow::Context as _;

/// Folders of the root that git does not know.
const NOT_OURS: &[&str] = &[".git", "target", "carry", "models"];
/// Larger files are data that nobody writes by hand.
const LARGEST: u64 = 4 << 20;

/// A text file: its path from the root with forward slashes, and its content.
#[derive(Debug)]
pub(crate) struct TextFile {
    pub(crate) path: String,
    pub(crate) text: String,
}

impl TextFile {
    /// Whether the name ends in a dot and one of these.
    pub(crate) fn has_extension(&self, extensions: &[&str]) -> bool {
        let extension = Path::new(&self.path).extension();
        extension.is_some_and(|extension| extensions.iter().any(|known| extension == *known))
    }

    /// Whether it is Rust.
    pub(crate) fn is_rust(&self) -> bool {
        self.has_extension(&["rs"])
    }

    /// The name of the crate the file belongs to: `kv` for `crates/kv/src/page.rs`.
    pub(crate) fn crate_name(&self) -> Option<&str> {
        match self.path.strip_prefix("crates/") {
            Some(rest) => rest.split('/').next(),
            None => self.path.starts_with("xtask/").then_some("xtask"),
        }
    }
}

/// All text files of a repository, sorted by path.
#[derive(Debug)]
pub(crate) struct Tree {
    files: Vec<TextFile>,
}

impl Tree {
    /// Reads everything below the root that is text and not built or fetched.
    pub(crate) fn read(root: &Path) -> anyhow::Result<Self> {
        let mut files = Vec::new();
        read_folder(root, "", &mut files)?;
        files.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(Self { files })
    }

    /// All files.
    pub(crate) fn files(&self) -> &[TextFile] {
        &self.files
    }

    /// The Rust files.
    pub(crate) fn rust(&self) -> impl Iterator<Item = &TextFile> {
        self.files.iter().filter(|file| file.is_rust())
    }

    /// The files of a folder and its folders.
    pub(crate) fn under(&self, folder: &str) -> impl Iterator<Item = &TextFile> {
        self.files
            .iter()
            .filter(move |file| file.path.starts_with(folder))
    }

    /// One file.
    pub(crate) fn get(&self, path: &str) -> Option<&TextFile> {
        self.files.iter().find(|file| file.path == path)
    }
}

fn read_folder(folder: &Path, prefix: &str, files: &mut Vec<TextFile>) -> anyhow::Result<()> {
    let entries = fs::read_dir(folder).with_context(|| format!("cannot list {prefix}"))?;
    for entry in entries {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let path = format!("{prefix}{name}");
        let kind = entry.file_type()?;
        if NOT_OURS.contains(&path.as_str()) || name == "__pycache__" {
            continue;
        }
        if kind.is_dir() {
            read_folder(&entry.path(), &format!("{path}/"), files)?;
        } else if kind.is_file() && entry.metadata()?.len() <= LARGEST {
            let bytes = fs::read(entry.path()).with_context(|| format!("cannot read {path}"))?;
            if let Ok(text) = String::from_utf8(bytes) {
                files.push(TextFile { path, text });
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::tidy::fixture;

    #[test]
    fn built_and_fetched_folders_are_not_read() {
        let (_folder, tree) = fixture::tree(&[
            ("crates/models/src/lib.rs", "a"),
            ("models/weights.txt", "b"),
            ("target/debug/x.rs", "c"),
            ("README.md", "d"),
        ]);
        let paths: Vec<&str> = tree.files().iter().map(|file| file.path.as_str()).collect();
        assert_eq!(paths, ["README.md", "crates/models/src/lib.rs"]);
    }

    #[test]
    fn a_file_knows_its_crate() {
        let (_folder, tree) = fixture::tree(&[
            ("crates/kv/src/page.rs", ""),
            ("docs/a.md", ""),
            ("xtask/src/main.rs", ""),
        ]);
        let crates: Vec<Option<&str>> = tree
            .files()
            .iter()
            .map(crate::tidy::tree::TextFile::crate_name)
            .collect();
        assert_eq!(crates, [Some("kv"), None, Some("xtask")]);
    }
}
