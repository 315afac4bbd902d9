//! Dataset files, with the line named where they are wrong.

use super::DatasetError;
use serde::de::DeserializeOwned;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;

fn open(path: &Path) -> Result<File, DatasetError> {
    File::open(path)
        .and_then(|file| {
            if file.metadata()?.is_dir() {
                return Err(std::io::Error::other("it is a folder"));
            }
            Ok(file)
        })
        .map_err(|source| DatasetError::Unreadable {
            path: path.to_owned(),
            source,
        })
}

/// One JSON value that fills a file.
pub(super) fn read_json<T: DeserializeOwned>(path: &Path) -> Result<T, DatasetError> {
    let bytes = open(path).and_then(|_| {
        std::fs::read(path).map_err(|source| DatasetError::Unreadable {
            path: path.to_owned(),
            source,
        })
    })?;
    serde_json::from_slice(&bytes).map_err(|error| DatasetError::Malformed {
        path: path.to_owned(),
        line: error.line(),
        reason: without_line(&error),
    })
}

/// What is wrong and in which column; the line is named by whoever tells it.
fn without_line(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let reason = text.split(" at line ").next().unwrap_or_default();
    format!("{reason} at column {}", error.column())
}

/// What the lines of a file hold, and what is wrong with the others.
pub(super) struct Lines<T> {
    pub(super) entries: Vec<T>,
    pub(super) bad: Vec<DatasetError>,
}

/// One JSON value per line; empty lines are passed over, and no more than `most` are read.
pub(super) fn read_lines<T: DeserializeOwned>(
    path: &Path,
    most: usize,
) -> Result<Vec<T>, DatasetError> {
    let lines = read_good_lines(path, most, 1)?;
    lines.bad.into_iter().next().map_or(Ok(lines.entries), Err)
}

/// The same, bad lines passed over; with the given number of them the rest is left unread.
pub(super) fn read_good_lines<T: DeserializeOwned>(
    path: &Path,
    most: usize,
    most_bad: usize,
) -> Result<Lines<T>, DatasetError> {
    let (mut entries, mut bad) = (Vec::new(), Vec::new());
    for (place, line) in BufReader::new(open(path)?).lines().enumerate() {
        if entries.len() == most || bad.len() == most_bad {
            break;
        }
        let malformed = |reason: String| DatasetError::Malformed {
            path: path.to_owned(),
            line: place + 1,
            reason,
        };
        let line = line.map_err(|error| malformed(error.to_string()))?;
        if line.trim().is_empty() {
            continue;
        }
        match serde_json::from_str(&line) {
            Ok(entry) => entries.push(entry),
            Err(error) => bad.push(malformed(without_line(&error))),
        }
    }
    Ok(Lines { entries, bad })
}
