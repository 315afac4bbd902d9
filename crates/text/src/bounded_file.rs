//! Files of a model folder, read whole, but never more than a real one has.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;

/// The longest real tokenizer.json has 40 MB.
const MOST_BYTES: u64 = 512 << 20;

/// Reads a regular file. Pipes and devices are refused before opening, because they may have no end.
pub(crate) fn read(path: &Path) -> io::Result<Vec<u8>> {
    let facts = std::fs::metadata(path)?;
    if !facts.is_file() {
        let reason = "it is not a regular file";
        return Err(io::Error::new(io::ErrorKind::InvalidInput, reason));
    }
    if facts.len() > MOST_BYTES {
        let reason = format!("it has {} bytes, the limit is {MOST_BYTES}", facts.len());
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, reason));
    }
    let mut bytes = Vec::new();
    File::open(path)?.take(MOST_BYTES).read_to_end(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_without_an_end_and_files_that_are_too_long_are_refused() {
        let refusal = |path: &Path| read(path).unwrap_err().to_string();
        assert_eq!(refusal("/dev/zero".as_ref()), "it is not a regular file");
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tokenizer.json");
        let file = File::create(&path).unwrap();
        file.set_len(MOST_BYTES + 1).unwrap();
        assert_eq!(
            refusal(&path),
            "it has 536870913 bytes, the limit is 536870912"
        );
    }
}
