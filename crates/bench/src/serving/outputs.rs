//! Where results go, looked at before any request is made.

use super::compat::output_file;
use super::error::ServingError;
use super::options::Options;
use std::io;
use std::path::{Path, PathBuf};

/// Refuses files that cannot come to be, so that no run is made in vain.
pub(super) fn check(options: &Options) -> Result<(), ServingError> {
    let own = |name: &str| options.own.text(name).map(PathBuf::from);
    let records =
        own("records").filter(|path| !["-", "none"].map(Path::new).contains(&path.as_path()));
    let paths = [Some(output_file(options)), records, own("plot")];
    for path in paths.into_iter().flatten() {
        possible(&path).map_err(|source| ServingError::Output { path, source })?;
    }
    Ok(())
}

fn possible(path: &Path) -> io::Result<()> {
    if path.is_dir() {
        return Err(io::Error::from(io::ErrorKind::IsADirectory));
    }
    let folder = path
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty());
    folder.map_or(Ok(()), |folder| std::fs::metadata(folder).map(drop))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_needs_a_folder_and_must_not_be_one() {
        let folder = tempfile::tempdir().unwrap();
        let kind = |path: &Path| possible(path).err().map(|error| error.kind());
        assert_eq!(kind(&folder.path().join("new.jsonl")), None);
        assert_eq!(kind(Path::new("new.jsonl")), None);
        assert_eq!(
            kind(&folder.path().join("none/new.jsonl")),
            Some(io::ErrorKind::NotFound)
        );
        assert_eq!(kind(folder.path()), Some(io::ErrorKind::IsADirectory));
    }
}
