//! What can be wrong with a command line.

/// A command line that does not follow its table; [`exit_code`](Self::exit_code) says how to end.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FlagError {
    /// Not a mistake: `-h` or `--help` was given.
    #[error("help was asked for")]
    HelpAsked,
    /// An option nobody declared.
    #[error("unknown option {option}{}", nearest.as_ref().map(|name| format!("; did you mean {name}?")).unwrap_or_default())]
    UnknownOption {
        /// As typed.
        option: String,
        /// The closest declared spelling.
        nearest: Option<String>,
    },
    /// Words that belong to no flag and to no positional.
    #[error("unrecognized arguments: {}", words.join(" "))]
    UnexpectedWords {
        /// As typed.
        words: Vec<String>,
    },
    /// A prefix of several options.
    #[error("ambiguous option: {option} could match {}", candidates.join(", "))]
    Ambiguous {
        /// As typed.
        option: String,
        /// What it could mean, in alphabetical order.
        candidates: Vec<String>,
    },
    /// An option that takes words got none.
    #[error("argument {option}: expected {expected}")]
    MissingValue {
        /// All spellings of the flag.
        option: String,
        /// What was expected, in words.
        expected: &'static str,
    },
    /// A switch got a value.
    #[error("argument {option}: takes no value, got '{value}'")]
    UnexpectedValue {
        /// All spellings of the flag.
        option: String,
        /// As typed after the equals sign.
        value: String,
    },
    /// A word that is not of the flag's kind.
    #[error("argument {option}: invalid {kind} value: '{value}'")]
    InvalidValue {
        /// All spellings of the flag.
        option: String,
        /// The kind in words.
        kind: &'static str,
        /// As typed.
        value: String,
    },
    /// A word that is none of the choices.
    #[error(
        "argument {option}: invalid choice: '{value}'{} (choose from {})",
        nearest.as_ref().map(|name| format!("; did you mean '{name}'?")).unwrap_or_default(),
        choices.join(", ")
    )]
    InvalidChoice {
        /// All spellings of the flag.
        option: String,
        /// As typed.
        value: String,
        /// The closest choice.
        nearest: Option<&'static str>,
        /// All of them.
        choices: &'static [&'static str],
    },
    /// A word that another program knows.
    #[error("argument {option}: '{value}' is not served yet (choose from {})", choices.join(", "))]
    NotServedYet {
        /// All spellings of the flag.
        option: String,
        /// As typed.
        value: String,
        /// What is served.
        choices: &'static [&'static str],
    },
    /// Two flags that exclude each other.
    #[error("argument {option}: not allowed with argument {other}")]
    Exclusive {
        /// The later flag.
        option: String,
        /// The earlier flag.
        other: String,
    },
    /// Flags or positionals that must be given.
    #[error("the following arguments are required: {}", names.join(", "))]
    Required {
        /// Their titles.
        names: Vec<String>,
    },
}

impl FlagError {
    /// What the process returns: 0 after help, 2 for a usage error.
    pub fn exit_code(&self) -> u8 {
        if *self == Self::HelpAsked { 0 } else { 2 }
    }
}
