//! Embeds the kernels that `cargo xtask kernels` compiled; without them the binary serves on the CPU.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

fn main() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/kernels");
    // To cargo, a path that is not there has always changed: without kernels every build would begin with this crate.
    std::fs::create_dir_all(&folder).expect("the target folder is writable");
    println!("cargo::rerun-if-changed={}", folder.display());
    let mut table = String::from("&[\n");
    for file in compiled(&folder) {
        let name = file
            .file_stem()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        println!("cargo::rerun-if-changed={}", file.display());
        writeln!(
            table,
            "    ({name:?}, include_bytes!({:?})),",
            file.display().to_string()
        )
        .expect("a string takes everything");
    }
    table.push(']');
    #[expect(
        clippy::disallowed_methods,
        reason = "cargo hands the build folder over so"
    )]
    let out = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    std::fs::write(out.join("embedded.rs"), table).expect("the build folder is writable");
}

fn compiled(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = folder.read_dir() else {
        return Vec::new();
    };
    let mut files: Vec<PathBuf> = entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| {
            path.extension()
                .is_some_and(|extension| extension == "fatbin")
        })
        .collect();
    files.sort();
    files
}
