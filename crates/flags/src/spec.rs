//! What a flag is called, what it takes and what it is when nobody gives it.

/// What one word after a flag must be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Any text.
    Text,
    /// A whole number.
    Integer,
    /// A whole number, also written with a suffix: `16k` is 16000, `16Ki` is 16384.
    Count,
    /// A number; `inf` and `nan` are numbers too.
    Float,
    /// One of these words.
    Choice(&'static [&'static str]),
}

/// How many words a flag takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Takes {
    /// None: the flag is on or off.
    Nothing,
    /// None: `--name` turns on, `--no-name` turns off.
    OnOff,
    /// Exactly one.
    One,
    /// One or none; given without a word it has this value.
    Maybe(&'static str),
    /// One or more, up to the next option.
    Some,
    /// Any number, up to the next option.
    Any,
}

/// The value of a flag that was not given.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Preset {
    /// Nothing at all: the program decides.
    Unset,
    /// On or off.
    Switch(bool),
    /// A text.
    Text(&'static str),
    /// A whole number.
    Integer(i64),
    /// A number.
    Float(f64),
    /// A list of words.
    Words(&'static [&'static str]),
}

/// One flag: names, kind, default and help. Built in constant tables by chaining.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FlagSpec {
    /// The main name, without dashes.
    pub name: &'static str,
    /// Further names, without dashes.
    pub aliases: &'static [&'static str],
    /// The name in a `Namespace(…)` echo when it is not the main name with underscores.
    pub key: Option<&'static str>,
    /// What each word must be.
    pub kind: Kind,
    /// How many words it takes.
    pub takes: Takes,
    /// Its value when not given.
    pub preset: Preset,
    /// One short sentence for `--help`.
    pub help: &'static str,
    /// The first version that knew it; empty when it was always there.
    pub since: &'static str,
    /// Whether leaving it out is an error.
    pub required: bool,
    /// At most one flag with the same word here may be given.
    pub exclusive: Option<&'static str>,
    /// Words that other programs choose from and this one does not, yet.
    pub not_yet: &'static [&'static str],
}

impl FlagSpec {
    const fn new(name: &'static str, kind: Kind, takes: Takes, help: &'static str) -> Self {
        Self {
            name,
            aliases: &[],
            key: None,
            kind,
            takes,
            preset: Preset::Unset,
            help,
            since: "",
            required: false,
            exclusive: None,
            not_yet: &[],
        }
    }

    /// A flag that is on when given and off otherwise.
    pub const fn switch(name: &'static str, help: &'static str) -> Self {
        Self::new(name, Kind::Text, Takes::Nothing, help).default(Preset::Switch(false))
    }

    /// A flag with a `--no-` twin.
    pub const fn on_off(name: &'static str, help: &'static str) -> Self {
        Self::new(name, Kind::Text, Takes::OnOff, help)
    }

    /// A flag that takes one text.
    pub const fn text(name: &'static str, help: &'static str) -> Self {
        Self::new(name, Kind::Text, Takes::One, help)
    }

    /// A flag that takes one whole number.
    pub const fn integer(name: &'static str, help: &'static str) -> Self {
        Self::new(name, Kind::Integer, Takes::One, help)
    }

    /// A flag that takes one whole number, suffixes allowed.
    pub const fn count(name: &'static str, help: &'static str) -> Self {
        Self::new(name, Kind::Count, Takes::One, help)
    }

    /// A flag that takes one number.
    pub const fn float(name: &'static str, help: &'static str) -> Self {
        Self::new(name, Kind::Float, Takes::One, help)
    }

    /// A flag that takes one of the words.
    pub const fn choice(
        name: &'static str,
        choices: &'static [&'static str],
        help: &'static str,
    ) -> Self {
        Self::new(name, Kind::Choice(choices), Takes::One, help)
    }

    /// A flag that takes one or more texts.
    pub const fn words(name: &'static str, help: &'static str) -> Self {
        Self::new(name, Kind::Text, Takes::Some, help)
    }

    /// The same flag with another default.
    pub const fn default(mut self, preset: Preset) -> Self {
        self.preset = preset;
        self
    }

    /// The same flag with further names.
    pub const fn alias(mut self, aliases: &'static [&'static str]) -> Self {
        self.aliases = aliases;
        self
    }

    /// The same flag under another name in the echo.
    pub const fn stored_as(mut self, key: &'static str) -> Self {
        self.key = Some(key);
        self
    }

    /// The same flag taking another number of words.
    pub const fn takes(mut self, takes: Takes) -> Self {
        self.takes = takes;
        self
    }

    /// The same flag, first known in this version.
    pub const fn since(mut self, version: &'static str) -> Self {
        self.since = version;
        self
    }

    /// The same flag, which must be given.
    pub const fn required(mut self) -> Self {
        self.required = true;
        self
    }

    /// The same flag, not to be given together with others of the same group.
    pub const fn exclusive(mut self, group: &'static str) -> Self {
        self.exclusive = Some(group);
        self
    }

    /// The same flag, with words that are refused as not served yet.
    pub const fn not_yet(mut self, words: &'static [&'static str]) -> Self {
        self.not_yet = words;
        self
    }

    /// Whether this is one of its names (without dashes).
    pub fn is_named(&self, name: &str) -> bool {
        self.name == name || self.aliases.contains(&name)
    }

    /// Its name in an echo: the main name with underscores unless stated otherwise.
    pub fn echo_key(&self) -> String {
        self.key
            .map_or_else(|| self.name.replace('-', "_"), str::to_owned)
    }

    /// All its spellings joined by slashes, as messages name it.
    pub(crate) fn title(&self) -> String {
        let names = std::iter::once(&self.name).chain(self.aliases);
        names
            .map(|name| format!("--{name}"))
            .collect::<Vec<_>>()
            .join("/")
    }
}

/// A word that belongs to no flag.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Positional {
    /// How help and errors name it.
    pub name: &'static str,
    /// How many words it takes: [`Takes::One`], [`Takes::Maybe`] or [`Takes::Any`].
    pub takes: Takes,
    /// One short sentence for `--help`.
    pub help: &'static str,
}

/// Flags that belong together in `--help`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Group<'a> {
    /// The heading.
    pub title: &'a str,
    /// The flags in the order of declaration.
    pub flags: &'a [FlagSpec],
}

/// A program or subcommand: its name, its words and its flags.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Command<'a> {
    /// What a person types, for example `peregrine serve`.
    pub program: &'a str,
    /// What it does, for `--help`.
    pub about: &'a str,
    /// Words that belong to no flag, in order.
    pub positionals: &'a [Positional],
    /// The flags.
    pub groups: &'a [Group<'a>],
}
