//! Hashes of files, computed while they pass.

use std::fs::File;
use std::io::{self, Read, Write};
use std::path::Path;

use sha2::{Digest as _, Sha256};

use crate::error::HubError;
use crate::git_blob::GitBlob;
use crate::progress::Progress;

const CHUNK: usize = 1 << 20;

/// What a file must hash to, in lower-case hexadecimal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Expected {
    /// SHA-256 of the bytes (large files of the hub, packages).
    Sha256(String),
    /// The id git gives the file (small files of the hub).
    GitBlob(String),
}

impl Expected {
    /// The hash in an entity tag of the hub: 64 digits or 40 digits.
    pub(crate) fn from_etag(etag: &str) -> Option<Self> {
        let hexadecimal = etag
            .bytes()
            .all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte));
        match (hexadecimal, etag.len()) {
            (true, 64) => Some(Self::Sha256(etag.to_owned())),
            (true, 40) => Some(Self::GitBlob(etag.to_owned())),
            _ => None,
        }
    }

    pub(crate) fn text(&self) -> &str {
        match self {
            Self::Sha256(text) | Self::GitBlob(text) => text,
        }
    }

    /// Reads a whole file and fails unless it has this hash and length.
    pub(crate) fn check(
        &self,
        path: &Path,
        bytes: u64,
        progress: &mut dyn Progress,
    ) -> Result<(), HubError> {
        let name = path.display().to_string();
        let mut file = File::open(path).map_err(HubError::io("open", path))?;
        let found = file
            .metadata()
            .map_err(HubError::io("inspect", path))?
            .len();
        if found != bytes {
            return Err(HubError::SizeMismatch {
                file: name,
                expected: bytes,
                found,
            });
        }
        progress.start(&format!("checking {}", file_name(path)), Some(bytes));
        let mut hash = Hash::new(self, bytes);
        copy(&mut file, &mut hash, progress).map_err(HubError::io("read", path))?;
        progress.finish();
        let found = hash.finish();
        if found != self.text() {
            return Err(HubError::HashMismatch {
                file: name,
                expected: self.text().to_owned(),
                found,
            });
        }
        Ok(())
    }
}

fn file_name(path: &Path) -> String {
    path.file_name()
        .unwrap_or(path.as_os_str())
        .to_string_lossy()
        .into_owned()
}

enum Hash {
    Sha256(Sha256),
    GitBlob(GitBlob),
}

impl Hash {
    fn new(kind: &Expected, bytes: u64) -> Self {
        match kind {
            Expected::Sha256(_) => Self::Sha256(Sha256::new()),
            Expected::GitBlob(_) => Self::GitBlob(GitBlob::new(bytes)),
        }
    }

    fn finish(self) -> String {
        match self {
            Self::Sha256(hash) => hexadecimal(&hash.finalize()),
            Self::GitBlob(hash) => hexadecimal(&hash.finish()),
        }
    }
}

impl Write for Hash {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Sha256(hash) => hash.update(bytes),
            Self::GitBlob(hash) => hash.update(bytes),
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Copies everything, telling how far it is.
fn copy(from: &mut dyn Read, to: &mut dyn Write, progress: &mut dyn Progress) -> io::Result<u64> {
    let mut buffer = vec![0; CHUNK];
    let mut done = 0;
    loop {
        let read = from.read(&mut buffer)?;
        if read == 0 {
            return Ok(done);
        }
        to.write_all(&buffer[..read])?;
        done += read as u64;
        progress.advance(done);
    }
}

/// Copies and returns the length and the SHA-256 of what passed.
pub(crate) fn copy_hashed(
    from: &mut dyn Read,
    to: &mut dyn Write,
    progress: &mut dyn Progress,
) -> io::Result<(u64, String)> {
    let mut tee = Tee {
        hash: Sha256::new(),
        to,
    };
    let bytes = copy(from, &mut tee, progress)?;
    Ok((bytes, hexadecimal(&tee.hash.finalize())))
}

struct Tee<'a> {
    hash: Sha256,
    to: &'a mut dyn Write,
}

impl Write for Tee<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.to.write(bytes)?;
        self.hash.update(&bytes[..written]);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}

fn hexadecimal(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes
        .iter()
        .fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
            let _ = write!(text, "{byte:02x}");
            text
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::progress::Silent;

    #[test]
    fn a_file_is_checked_by_either_kind_of_hash() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        std::fs::write(&path, b"hello\n").unwrap();
        let sha256 = "5891b5b522d5df086d0ff0b110fbd9d21bb4fc7163af34d08286a2e846f6be03";
        let blob = "ce013625030ba8dba906f756967f9e9ca394464a";
        for hash in [sha256, blob] {
            Expected::from_etag(hash)
                .unwrap()
                .check(&path, 6, &mut Silent)
                .unwrap();
            let wrong = hash.replace('5', "6");
            let error = Expected::from_etag(&wrong)
                .unwrap()
                .check(&path, 6, &mut Silent);
            assert!(matches!(error, Err(HubError::HashMismatch { .. })));
        }
        let error = Expected::from_etag(blob)
            .unwrap()
            .check(&path, 7, &mut Silent);
        assert!(matches!(
            error,
            Err(HubError::SizeMismatch {
                found: 6,
                expected: 7,
                ..
            })
        ));
    }

    #[test]
    fn only_hexadecimal_tags_of_known_length_are_hashes() {
        for tag in ["", "abc", "W/../x", &"g".repeat(40), &"A".repeat(64)] {
            assert_eq!(Expected::from_etag(tag), None, "{tag}");
        }
    }
}
