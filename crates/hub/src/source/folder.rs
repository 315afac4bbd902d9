//! A model that is already on this machine, used where it lies.

use std::fs;
use std::path::Path;

use crate::error::HubError;
use crate::store::LocalModel;

/// Opens a GGUF file, a folder with a `config.json`, or a folder with one GGUF file.
pub fn open(path: &Path) -> Result<LocalModel, HubError> {
    let full = fs::canonicalize(path).map_err(|_| HubError::NoSuchPath {
        path: path.to_owned(),
    })?;
    let name = full
        .file_name()
        .unwrap_or(full.as_os_str())
        .to_string_lossy()
        .into_owned();
    if full.is_file() || full.join("config.json").is_file() {
        return Ok(LocalModel { name, path: full });
    }
    let entries = fs::read_dir(&full).map_err(HubError::io("read", &full))?;
    let mut files: Vec<String> = entries
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .filter(|file| {
            Path::new(file)
                .extension()
                .is_some_and(|extension| extension == "gguf")
        })
        .collect();
    files.sort();
    match files.as_slice() {
        [] => Err(HubError::NotAModel {
            path: path.to_owned(),
        }),
        [file] => Ok(LocalModel {
            name,
            path: full.join(file),
        }),
        [first, ..] => Err(HubError::ChooseOne {
            place: path.display().to_string(),
            example: path.join(first).display().to_string(),
            files,
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_a_model_by_its_config_or_by_its_only_gguf() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path();
        assert!(matches!(open(root), Err(HubError::NotAModel { .. })));
        assert!(matches!(
            open(&root.join("none")),
            Err(HubError::NoSuchPath { .. })
        ));
        fs::write(root.join("a.gguf"), b"").unwrap();
        assert_eq!(
            open(root).unwrap().path,
            fs::canonicalize(root.join("a.gguf")).unwrap()
        );
        assert_eq!(open(&root.join("a.gguf")).unwrap().name, "a.gguf");
        fs::write(root.join("b.gguf"), b"").unwrap();
        let error = open(root).unwrap_err().to_string();
        assert!(
            error.contains("choose one as") && error.ends_with("a.gguf, b.gguf"),
            "{error}"
        );
        fs::write(root.join("config.json"), b"{}").unwrap();
        assert_eq!(open(root).unwrap().path, fs::canonicalize(root).unwrap());
    }
}
