//! What the command line of `cargo xtask versus` can ask for.

use std::path::PathBuf;

use flags::{Command, FlagError, FlagSpec, Group, Positional, Preset, Takes};

const FLAGS: &[FlagSpec] = &[
    FlagSpec::integer(
        "threads",
        "Threads of either side; all cores when left out.",
    ),
    FlagSpec::integer("runs", "How often each side has its turn.").default(Preset::Integer(5)),
    FlagSpec::text(
        "model",
        "A GGUF file; the default model is fetched when left out.",
    ),
    FlagSpec::text(
        "binary",
        "Our binary; the release build is made and used when left out.",
    ),
    FlagSpec::integer(
        "jobs",
        "Compiler processes while the peer is built; all cores when left out.",
    ),
    FlagSpec::integer(
        "patience",
        "Seconds to wait for an idle machine before each measurement.",
    )
    .default(Preset::Integer(300)),
    FlagSpec::choice(
        "only",
        &["ours", "llama-cpp"],
        "Measure one side and write nothing.",
    ),
];

/// The table of flags.
pub(crate) const COMMAND: Command<'_> = Command {
    program: "cargo xtask versus",
    about: "Measures this build against another server on this machine and writes the table to \
            docs/performance.md.",
    positionals: &[Positional {
        name: "peer",
        takes: Takes::One,
        help: "The other server: llama-cpp.",
    }],
    groups: &[Group {
        title: "options",
        flags: FLAGS,
    }],
};

/// The settings of one comparison.
#[derive(Debug)]
pub(crate) struct Settings {
    pub(crate) threads: usize,
    pub(crate) runs: usize,
    pub(crate) model: Option<PathBuf>,
    pub(crate) binary: Option<PathBuf>,
    pub(crate) jobs: usize,
    pub(crate) patience: u64,
    pub(crate) only: Option<String>,
}

impl Settings {
    /// Reads them from the words after `versus`.
    pub(crate) fn parse(words: &[String]) -> Result<Self, FlagError> {
        let parsed = COMMAND.parse(words)?;
        if parsed.words() != ["llama-cpp"] {
            return Err(FlagError::UnexpectedWords {
                words: parsed.words().to_vec(),
            });
        }
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let count = |name: &str, otherwise: usize| {
            let number = parsed.integer(name).map(usize::try_from);
            number
                .and_then(Result::ok)
                .filter(|&number| number > 0)
                .unwrap_or(otherwise)
        };
        Ok(Self {
            threads: count("threads", cores),
            runs: count("runs", 5),
            model: parsed.text("model").map(PathBuf::from),
            binary: parsed.text("binary").map(PathBuf::from),
            jobs: count("jobs", cores),
            patience: count("patience", 0) as u64,
            only: parsed.text("only").map(str::to_owned),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Settings, FlagError> {
        let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        Settings::parse(&words)
    }

    #[test]
    fn flags_are_read_and_have_defaults() {
        let settings = parse("llama-cpp --runs 3 --threads=1 --only ours").unwrap();
        assert_eq!((settings.runs, settings.threads), (3, 1));
        assert_eq!(settings.patience, 300);
        assert_eq!(settings.only.as_deref(), Some("ours"));
        assert_eq!(parse("llama-cpp --patience 0").unwrap().patience, 0);
    }

    #[test]
    fn another_peer_is_refused() {
        assert!(parse("vllm").is_err());
        assert!(parse("").is_err());
    }
}
