//! How far a transfer is, told to whoever draws it.

/// Hears about long work. Calls come in order: `start`, any number of `advance`, `finish`.
pub trait Progress {
    /// A piece of work begins; `bytes` is its size when known.
    fn start(&mut self, what: &str, bytes: Option<u64>);
    /// This many bytes of the current piece are done in all.
    fn advance(&mut self, done: u64);
    /// The current piece is done.
    fn finish(&mut self);
    /// Something worth a line, such as waiting for another process.
    fn note(&mut self, message: &str);
}

/// Hears nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct Silent;

impl Progress for Silent {
    fn start(&mut self, _what: &str, _bytes: Option<u64>) {}
    fn advance(&mut self, _done: u64) {}
    fn finish(&mut self) {}
    fn note(&mut self, _message: &str) {}
}
