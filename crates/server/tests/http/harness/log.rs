use std::io;
use std::sync::{Arc, Mutex};

use tracing::subscriber::DefaultGuard;

/// What the server of a test logs: both run on the thread of the test.
#[derive(Clone, Default)]
pub(crate) struct Log(Arc<Mutex<Vec<u8>>>);

impl Log {
    /// Keeps what is logged from now on, as long as the guard lives.
    pub(crate) fn keep() -> (Self, DefaultGuard) {
        let log = Self::default();
        let lines = log.clone();
        let subscriber = tracing_subscriber::fmt()
            .with_ansi(false)
            .with_writer(move || lines.clone())
            .finish();
        (log, tracing::subscriber::set_default(subscriber))
    }

    /// The lines that contain `text`.
    pub(crate) fn lines_with(&self, text: &str) -> Vec<String> {
        let bytes = self.0.lock().expect("nothing panics in it");
        let all = String::from_utf8_lossy(&bytes);
        let lines = all.lines().filter(|line| line.contains(text));
        lines.map(str::to_owned).collect()
    }
}

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut all = self.0.lock().expect("nothing panics in it");
        all.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
