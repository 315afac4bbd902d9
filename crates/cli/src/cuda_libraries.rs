//! Where NVIDIA's libraries lie on machines whose loader does not know them.

use std::path::{Path, PathBuf};

use crate::env::Env;

/// Folders of installers, in the order in which they are tried.
const INSTALLED: &[&str] = &[
    "/usr/local/cuda/lib64",
    "/usr/local/cuda/extras/CUPTI/lib64",
    "/usr/local/nvidia/lib64",
    "/usr/local/nvidia/lib",
];

/// The toolkit's own folder, the usual ones, and those of the packages that Python interpreters on the path carry.
pub(crate) fn folders(env: &Env) -> Vec<PathBuf> {
    let toolkit = env
        .cuda_home
        .iter()
        .flat_map(|home| ["lib64", "lib", "extras/CUPTI/lib64"].map(|folder| home.join(folder)));
    let installed = INSTALLED.iter().map(PathBuf::from);
    let packaged = env
        .programs
        .iter()
        .flat_map(|folder| python_packages(folder));
    let mut found: Vec<PathBuf> = Vec::new();
    for folder in toolkit.chain(installed).chain(packaged) {
        if folder.is_dir() && !found.contains(&folder) {
            found.push(folder);
        }
    }
    found
}

/// `../lib/python3.*/site-packages/nvidia/*/lib` beside an interpreter.
fn python_packages(programs: &Path) -> Vec<PathBuf> {
    if !programs.join("python3").exists() {
        return Vec::new();
    }
    let Some(root) = programs.parent() else {
        return Vec::new();
    };
    children(&root.join("lib"))
        .into_iter()
        .filter(|folder| {
            folder
                .file_name()
                .is_some_and(|name| name.to_string_lossy().starts_with("python3"))
        })
        .flat_map(|python| children(&python.join("site-packages/nvidia")))
        .map(|package| package.join("lib"))
        .collect()
}

fn children(folder: &Path) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = folder
        .read_dir()
        .into_iter()
        .flatten()
        .filter_map(|entry| Some(entry.ok()?.path()))
        .collect();
    found.sort();
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packages_beside_an_interpreter_on_the_path_are_found() {
        let root = tempfile::tempdir().expect("a folder");
        let lib = root
            .path()
            .join("lib/python3.12/site-packages/nvidia/cu13/lib");
        let programs = root.path().join("bin");
        std::fs::create_dir_all(&lib).expect("writable");
        std::fs::create_dir_all(&programs).expect("writable");
        std::fs::write(programs.join("python3"), "").expect("writable");
        let env = Env {
            programs: vec![programs.clone(), programs],
            ..Env::default()
        };
        let found = folders(&env);
        assert_eq!(found.iter().filter(|folder| **folder == lib).count(), 1);
    }
}
