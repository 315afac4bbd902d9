//! What a run takes from its surroundings: the environment is read by the program, not here.

use crate::vocabulary::{Vocabulary, VocabularyError};
use std::io::Write;
use std::path::PathBuf;

/// Where a run finds what is not on its command line.
pub struct Surroundings<'a> {
    /// `OPENAI_API_KEY`: sent as a bearer token.
    pub openai_api_key: Option<String>,
    /// `API_KEY`: sent as it is, when there is no other.
    pub api_key: Option<String>,
    /// `SGLANG_IS_IN_CI`: always empty the cache of SGLang servers after warm-up.
    pub flush_always: bool,
    /// `SGLANG_TORCH_PROFILER_DIR`: where servers write profiles.
    pub profile_folder: Option<PathBuf>,
    /// Finds the tokenizer of a model by its name or folder.
    pub tokenizers: &'a dyn Fn(&str) -> Result<Vocabulary, VocabularyError>,
    /// Standard output.
    pub out: Box<dyn Write + Send>,
    /// Standard error.
    pub err: Box<dyn Write + Send>,
    /// Whether standard error is a terminal.
    pub terminal: bool,
    /// Whether a person's interrupt ends the load and not the program.
    pub catch_interrupts: bool,
}

impl Surroundings<'_> {
    /// The authorisation header, when there is a key.
    pub fn authorisation(&self) -> Option<(String, String)> {
        let given = |key: &Option<String>| key.clone().filter(|key| !key.is_empty());
        let value = match given(&self.openai_api_key) {
            Some(key) => format!("Bearer {key}"),
            None => given(&self.api_key)?,
        };
        Some(("Authorization".to_owned(), value))
    }

    /// Prints a line.
    pub fn say(&mut self, line: &str) {
        // A closed output is no reason to lose a measurement.
        writeln!(self.out, "{line}").ok();
        self.out.flush().ok();
    }

    /// Prints text that has its own line ends.
    pub fn show(&mut self, text: &str) {
        self.out.write_all(text.as_bytes()).ok();
        self.out.flush().ok();
    }

    /// Prints a line to standard error.
    pub fn warn(&mut self, line: &str) {
        writeln!(self.err, "{line}").ok();
        self.err.flush().ok();
    }
}
