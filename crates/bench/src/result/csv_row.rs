//! Results as rows of a table file, as the LMDeploy client writes them.

use std::io;
use std::path::Path;

/// Appends a row; a new or empty file gets the head first.
pub fn append_csv(path: &Path, head: &[&str], row: &[String]) -> io::Result<()> {
    let file = std::fs::OpenOptions::new()
        .create(true)
        .append(true)
        .open(path)?;
    let is_new = file.metadata()?.len() == 0;
    let mut writer = csv::Writer::from_writer(file);
    if is_new {
        writer.write_record(head).map_err(io::Error::other)?;
    }
    writer.write_record(row).map_err(io::Error::other)?;
    writer.flush()
}
