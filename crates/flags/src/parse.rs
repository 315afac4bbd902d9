//! From words to settings.

use std::collections::BTreeMap;
use std::ops::Bound;

use crate::error::FlagError;
use crate::parsed::{Parsed, Setting};
use crate::spec::{Command, FlagSpec, Kind, Positional, Takes};
use crate::suggest::nearest;
use crate::value::Value;

/// Parses a command line that has flags only.
pub fn parse<S: AsRef<str>>(flags: &[FlagSpec], args: &[S]) -> Result<Parsed, FlagError> {
    parse_with(flags.to_vec(), &[], args)
}

impl Command<'_> {
    /// Parses the words after the program's name.
    pub fn parse<S: AsRef<str>>(&self, args: &[S]) -> Result<Parsed, FlagError> {
        let flags = self
            .groups
            .iter()
            .flat_map(|group| group.flags)
            .copied()
            .collect();
        parse_with(flags, self.positionals, args)
    }
}

fn parse_with<S: AsRef<str>>(
    flags: Vec<FlagSpec>,
    positionals: &[Positional],
    args: &[S],
) -> Result<Parsed, FlagError> {
    let spellings = spellings(&flags);
    let settings = flags.into_iter().map(|flag| Setting {
        flag,
        value: flag.preset.into(),
        spelled: None,
    });
    let mut reader = Reader {
        spellings,
        parsed: Parsed {
            settings: settings.collect(),
            words: Vec::new(),
        },
    };
    let args: Vec<&str> = args.iter().map(AsRef::as_ref).collect();
    let mut rest = args.as_slice();
    while let Some((word, after)) = rest.split_first() {
        rest = after;
        if *word == "--" {
            reader
                .parsed
                .words
                .extend(rest.iter().map(|word| (*word).to_owned()));
            break;
        }
        match reader.classify(word)? {
            Word::Help => return Err(FlagError::HelpAsked),
            Word::Loose => reader.parsed.words.push((*word).to_owned()),
            Word::Option(option) => rest = reader.take(&option, rest)?,
            Word::Unknown => return Err(reader.unknown(word)),
        }
    }
    require(&reader.parsed, positionals)?;
    Ok(reader.parsed)
}

/// Every spelling with dashes, in alphabetical order: prefixes are neighbours.
fn spellings(flags: &[FlagSpec]) -> BTreeMap<String, Meaning> {
    let mut spellings = BTreeMap::new();
    spellings.insert("--help".to_owned(), Meaning::Help);
    for (place, flag) in flags.iter().enumerate() {
        for name in std::iter::once(&flag.name).chain(flag.aliases) {
            let earlier = spellings.insert(format!("--{name}"), Meaning::Flag { place, on: true });
            assert!(earlier.is_none(), "the table declares --{name} once");
            if flag.takes == Takes::OnOff {
                spellings.insert(format!("--no-{name}"), Meaning::Flag { place, on: false });
            }
        }
    }
    spellings
}

#[derive(Clone, Copy, PartialEq)]
enum Meaning {
    Help,
    Flag { place: usize, on: bool },
}

/// An option found on the command line.
struct Found<'a> {
    place: usize,
    on: bool,
    spelled: String,
    inline: Option<&'a str>,
}

enum Word<'a> {
    Help,
    Loose,
    Option(Found<'a>),
    Unknown,
}

struct Reader {
    spellings: BTreeMap<String, Meaning>,
    parsed: Parsed,
}

impl Reader {
    fn classify<'a>(&self, word: &'a str) -> Result<Word<'a>, FlagError> {
        if !word.starts_with('-') || word == "-" {
            return Ok(Word::Loose);
        }
        if word == "-h" {
            return Ok(Word::Help);
        }
        let (name, inline) = match word.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (word, None),
        };
        if let Some((spelled, meaning)) = self.meaning(name)? {
            return Ok(match meaning {
                Meaning::Help => Word::Help,
                Meaning::Flag { place, on } => Word::Option(Found {
                    place,
                    on,
                    spelled,
                    inline,
                }),
            });
        }
        if is_negative_number(word) || word.contains(' ') {
            return Ok(Word::Loose);
        }
        Ok(Word::Unknown)
    }

    /// What an exact name or an unambiguous prefix means.
    fn meaning(&self, name: &str) -> Result<Option<(String, Meaning)>, FlagError> {
        if let Some(meaning) = self.spellings.get(name) {
            return Ok(Some((name.to_owned(), *meaning)));
        }
        if !name.starts_with("--") || name.len() < 3 {
            return Ok(None);
        }
        let from = (Bound::Included(name.to_owned()), Bound::Unbounded);
        let matches: Vec<_> = self
            .spellings
            .range(from)
            .take_while(|(spelling, _)| spelling.starts_with(name))
            .collect();
        let Some((spelled, meaning)) = matches.first() else {
            return Ok(None);
        };
        if matches.iter().any(|(_, other)| other != meaning) {
            let candidates = matches
                .iter()
                .map(|(spelling, _)| (*spelling).clone())
                .collect();
            return Err(FlagError::Ambiguous {
                option: name.to_owned(),
                candidates,
            });
        }
        Ok(Some(((*spelled).clone(), **meaning)))
    }

    /// Stores an option with its words; returns the words after them.
    fn take<'a, 'b>(
        &mut self,
        found: &Found<'a>,
        rest: &'b [&'a str],
    ) -> Result<&'b [&'a str], FlagError> {
        self.refuse_excluded(found.place)?;
        let flag = self.parsed.settings[found.place].flag;
        let available = match found.inline {
            Some(_) => 0,
            None => self.count_values(rest)?,
        };
        let words: Vec<&str> = match (found.inline, flag.takes) {
            (Some(value), Takes::Nothing | Takes::OnOff) => {
                return Err(FlagError::UnexpectedValue {
                    option: flag.title(),
                    value: value.to_owned(),
                });
            }
            (Some(value), _) => vec![value],
            (None, Takes::Nothing | Takes::OnOff) => Vec::new(),
            (None, Takes::One | Takes::Maybe(_)) => rest[..available.min(1)].to_vec(),
            (None, Takes::Some | Takes::Any) => rest[..available].to_vec(),
        };
        let used = if found.inline.is_some() {
            0
        } else {
            words.len()
        };
        let value = value_of(&flag, found.on, &words)?;
        let setting = &mut self.parsed.settings[found.place];
        setting.value = value;
        setting.spelled = Some(found.spelled.clone());
        Ok(&rest[used..])
    }

    fn count_values(&self, rest: &[&str]) -> Result<usize, FlagError> {
        for (count, word) in rest.iter().enumerate() {
            if *word == "--" || !matches!(self.classify(word)?, Word::Loose) {
                return Ok(count);
            }
        }
        Ok(rest.len())
    }

    fn refuse_excluded(&self, place: usize) -> Result<(), FlagError> {
        let flag = &self.parsed.settings[place].flag;
        let Some(group) = flag.exclusive else {
            return Ok(());
        };
        let other = self
            .parsed
            .settings
            .iter()
            .enumerate()
            .find(|(other, setting)| {
                *other != place
                    && setting.spelled.is_some()
                    && setting.flag.exclusive == Some(group)
            });
        match other {
            None => Ok(()),
            Some((_, setting)) => Err(FlagError::Exclusive {
                option: flag.title(),
                other: setting.flag.title(),
            }),
        }
    }

    fn unknown(&self, word: &str) -> FlagError {
        let name = word.split_once('=').map_or(word, |(name, _)| name);
        let nearest = nearest(name, self.spellings.keys().map(String::as_str));
        FlagError::UnknownOption {
            option: name.to_owned(),
            nearest: nearest.map(str::to_owned),
        }
    }
}

fn value_of(flag: &FlagSpec, on: bool, words: &[&str]) -> Result<Value, FlagError> {
    let missing = |expected| FlagError::MissingValue {
        option: flag.title(),
        expected,
    };
    match (flag.takes, words.first()) {
        (Takes::Nothing | Takes::OnOff, _) => Ok(Value::Switch(on)),
        (Takes::One, None) => Err(missing("one argument")),
        (Takes::Some, None) => Err(missing("at least one argument")),
        (Takes::Maybe(otherwise), None) => read(flag, otherwise),
        (Takes::One | Takes::Maybe(_), Some(word)) => read(flag, word),
        (Takes::Some | Takes::Any, _) => Ok(Value::List(
            words
                .iter()
                .map(|word| read(flag, word))
                .collect::<Result<_, _>>()?,
        )),
    }
}

fn read(flag: &FlagSpec, word: &str) -> Result<Value, FlagError> {
    if let Some(value) = Value::read(flag, word) {
        return Ok(value);
    }
    let (option, value) = (flag.title(), word.to_owned());
    Err(match flag.kind {
        Kind::Choice(choices) if flag.not_yet.contains(&word) => FlagError::NotServedYet {
            option,
            value,
            choices,
        },
        Kind::Choice(choices) => {
            let nearest = nearest(word, choices.iter().copied());
            FlagError::InvalidChoice {
                option,
                value,
                nearest,
                choices,
            }
        }
        Kind::Float => FlagError::InvalidValue {
            option,
            kind: "float",
            value,
        },
        _ => FlagError::InvalidValue {
            option,
            kind: "int",
            value,
        },
    })
}

/// `-5`, `-.5` and `-1.25` are values, not options.
fn is_negative_number(word: &str) -> bool {
    let Some(digits) = word.strip_prefix('-') else {
        return false;
    };
    let (whole, fraction) = digits
        .split_once('.')
        .map_or((digits, None), |(w, f)| (w, Some(f)));
    let all_digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    all_digits(whole)
        && fraction.map_or(!whole.is_empty(), |part| {
            !part.is_empty() && all_digits(part)
        })
}

fn require(parsed: &Parsed, positionals: &[Positional]) -> Result<(), FlagError> {
    let flags = parsed
        .settings
        .iter()
        .filter(|setting| setting.flag.required && setting.spelled.is_none());
    let mut names: Vec<String> = flags.map(|setting| setting.flag.title()).collect();
    let wanted = positionals
        .iter()
        .filter(|word| matches!(word.takes, Takes::One | Takes::Some));
    names.extend(
        wanted
            .skip(parsed.words.len())
            .map(|word| word.name.to_owned()),
    );
    if !names.is_empty() {
        return Err(FlagError::Required { names });
    }
    let unlimited = positionals
        .iter()
        .any(|word| matches!(word.takes, Takes::Any | Takes::Some));
    match parsed.words.get(positionals.len()..) {
        Some(words) if !words.is_empty() && !unlimited => Err(FlagError::UnexpectedWords {
            words: words.to_vec(),
        }),
        _ => Ok(()),
    }
}
