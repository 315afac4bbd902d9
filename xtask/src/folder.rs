//! Folders and all that is in them.

use std::path::{Path, PathBuf};

use anyhow::Context as _;

/// All files of a folder and the folders in it.
pub(crate) fn list(folder: &Path, files: &mut Vec<PathBuf>) -> anyhow::Result<()> {
    for entry in folder
        .read_dir()
        .with_context(|| format!("cannot list {}", folder.display()))?
    {
        let path = entry?.path();
        if path.is_dir() {
            list(&path, files)?;
        } else {
            files.push(path);
        }
    }
    Ok(())
}

/// Their places in the folder.
pub(crate) fn names(folder: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    list(folder, &mut files)?;
    let names = files
        .iter()
        .filter_map(|path| path.strip_prefix(folder).ok());
    Ok(names.map(Path::to_owned).collect())
}

/// Copies all of them over what is there.
pub(crate) fn copy(from: &Path, to: &Path) -> anyhow::Result<()> {
    for name in names(from)? {
        let place = to.join(&name);
        std::fs::create_dir_all(place.parent().unwrap_or(to))?;
        std::fs::copy(from.join(&name), &place)
            .with_context(|| format!("cannot copy {} to {}", name.display(), to.display()))?;
    }
    Ok(())
}
