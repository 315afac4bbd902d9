//! Values of flags, how a word becomes one, and how Python would write it.

use std::fmt::{self, Write as _};

use crate::spec::{FlagSpec, Kind, Preset};

/// What a flag holds after parsing.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// Nothing.
    None,
    /// On or off.
    Switch(bool),
    /// A text.
    Text(String),
    /// A whole number.
    Integer(i64),
    /// A number.
    Float(f64),
    /// Several values.
    List(Vec<Value>),
}

impl From<Preset> for Value {
    fn from(preset: Preset) -> Self {
        match preset {
            Preset::Unset => Self::None,
            Preset::Switch(on) => Self::Switch(on),
            Preset::Text(text) => Self::Text(text.to_owned()),
            Preset::Integer(number) => Self::Integer(number),
            Preset::Float(number) => Self::Float(number),
            Preset::Words(words) => Self::List(
                words
                    .iter()
                    .map(|word| Self::Text((*word).to_owned()))
                    .collect(),
            ),
        }
    }
}

impl Value {
    /// Reads one word as the flag's kind; `None` when it is not of that kind.
    pub(crate) fn read(flag: &FlagSpec, word: &str) -> Option<Self> {
        match flag.kind {
            Kind::Text => Some(Self::Text(word.to_owned())),
            Kind::Integer => integer(word).map(Self::Integer),
            Kind::Count => suffixed(word).or_else(|| integer(word)).map(Self::Integer),
            Kind::Float => word.trim().replace('_', "").parse().ok().map(Self::Float),
            Kind::Choice(choices) => choices.contains(&word).then(|| Self::Text(word.to_owned())),
        }
    }
}

fn integer(word: &str) -> Option<i64> {
    word.trim().replace('_', "").parse().ok()
}

fn suffixed(word: &str) -> Option<i64> {
    let word = word.trim();
    let at = word.find(|letter: char| letter.is_ascii_alphabetic())?;
    let (number, suffix) = word.split_at(at);
    let binary: i64 = match suffix {
        "Ki" => 1 << 10,
        "Mi" => 1 << 20,
        "Gi" => 1 << 30,
        "Ti" => 1 << 40,
        _ => 0,
    };
    if binary != 0 {
        return number.parse::<i64>().ok()?.checked_mul(binary);
    }
    let decimal = match suffix {
        "k" => 1e3,
        "M" => 1e6,
        "G" => 1e9,
        "T" => 1e12,
        _ => return None,
    };
    let product = number.parse::<f64>().ok()? * decimal;
    (product.abs() < 9e15).then_some(product.round() as i64)
}

impl fmt::Display for Value {
    /// Writes the value as a Python literal.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => out.write_str("None"),
            Self::Switch(true) => out.write_str("True"),
            Self::Switch(false) => out.write_str("False"),
            Self::Text(text) => quoted(out, text),
            Self::Integer(number) => write!(out, "{number}"),
            Self::Float(number) => float(out, *number),
            Self::List(values) => {
                out.write_char('[')?;
                for (place, value) in values.iter().enumerate() {
                    if place > 0 {
                        out.write_str(", ")?;
                    }
                    write!(out, "{value}")?;
                }
                out.write_char(']')
            }
        }
    }
}

fn quoted(out: &mut fmt::Formatter<'_>, text: &str) -> fmt::Result {
    let quote = if text.contains('\'') && !text.contains('"') {
        '"'
    } else {
        '\''
    };
    out.write_char(quote)?;
    for letter in text.chars() {
        match letter {
            '\n' => out.write_str("\\n")?,
            '\r' => out.write_str("\\r")?,
            '\t' => out.write_str("\\t")?,
            '\\' => out.write_str("\\\\")?,
            letter if letter == quote => write!(out, "\\{letter}")?,
            letter if letter.is_control() => write!(out, "\\x{:02x}", letter as u32)?,
            letter => out.write_char(letter)?,
        }
    }
    out.write_char(quote)
}

fn float(out: &mut fmt::Formatter<'_>, number: f64) -> fmt::Result {
    if number.is_nan() {
        return out.write_str("nan");
    }
    let shortest = format!("{number:?}");
    match shortest.split_once('e') {
        None => out.write_str(&shortest),
        Some((digits, exponent)) => {
            let (sign, size) = exponent
                .strip_prefix('-')
                .map_or(('+', exponent), |size| ('-', size));
            write!(out, "{digits}e{sign}{size:0>2}")
        }
    }
}
