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
    let length = file.metadata()?.len();
    let written = file
        .write_all(text.as_bytes())
        .and_then(|()| file.sync_data());
    if written.is_err() {
        // Half a line would spoil the ones that follow; a device has no length to go back to.
        file.set_len(length).ok();
    }
    written
}
