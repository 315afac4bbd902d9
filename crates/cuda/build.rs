//! Embeds the kernels that `cargo xtask kernels` compiled; without them the binary serves on the CPU.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

fn main() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/kernels");
    if !folder.exists() {
        make_old(&folder).expect("the target folder is writable");
    }
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

/// Makes a folder that looks old. To cargo, one that is not there has always changed, and so has one that is newer than this
/// build: without kernels every build would begin with this crate.
fn make_old(folder: &Path) -> std::io::Result<()> {
    std::fs::create_dir_all(folder)?;
    std::fs::File::open(folder)?.set_modified(SystemTime::UNIX_EPOCH)
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
