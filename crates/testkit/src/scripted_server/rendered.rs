//! Bytes that are sent many times, given to the system once.

use super::Act;
use rustix::fs::{MemfdFlags, memfd_create, sendfile};
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::sync::Arc;

/// The writes of an answer that many requests get.
///
/// They lie in a file in memory, of which the system sends pages as they are: a server under
/// measurement then spends its time on connections and not on copies.
#[derive(Clone, Debug)]
pub struct Rendered {
    file: Arc<File>,
    lengths: Vec<usize>,
}

/// A stretch of a file.
#[derive(Clone, Debug)]
pub struct Stretch {
    file: Arc<File>,
    from: u64,
    length: usize,
}

impl Rendered {
    /// Keeps these writes.
    ///
    /// # Errors
    /// When the system has no memory for them.
    pub fn new(writes: &[Arc<[u8]>]) -> io::Result<Self> {
        let mut file = File::from(memfd_create("answer", MemfdFlags::CLOEXEC)?);
        for write in writes {
            file.write_all(write)?;
        }
        Ok(Self {
            file: Arc::new(file),
            lengths: writes.iter().map(|write| write.len()).collect(),
        })
    }

    /// The writes in order, to be sent.
    pub fn acts(&self) -> impl Iterator<Item = Act> + '_ {
        let mut from = 0;
        self.lengths.iter().map(move |&length| {
            let stretch = Stretch {
                file: Arc::clone(&self.file),
                from,
                length,
            };
            from += length as u64;
            Act::SendStretch(stretch)
        })
    }
}

impl Stretch {
    /// How many bytes it has.
    pub(super) fn len(&self) -> usize {
        self.length
    }

    /// Sends what can be sent now of all but the first `sent` bytes: how many that were.
    pub(super) fn send(&self, stream: &impl AsFd, sent: usize) -> io::Result<usize> {
        let mut from = self.from + sent as u64;
        let length = sendfile(stream, &*self.file, Some(&mut from), self.length - sent)?;
        Ok(length)
    }
}
