//! Results in files.

mod csv_row;
mod line;

pub use csv_row::append_csv;
pub use line::{Field, ResultLine, Style};

use std::io::Write;
use std::path::Path;

/// Appends text to a file, creating it when it is not there.
pub fn append(path: &Path, text: &str) -> std::io::Result<()> {
    let mut file = std::fs::OpenOptions::new()
        .create(true)
        .append(true)
        .open(path)?;
    file.write_all(text.as_bytes())?;
    file.sync_data()
}
