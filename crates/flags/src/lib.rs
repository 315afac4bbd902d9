//! Command-line flags as data, with the rules people know from Python's argparse: exact names win,
//! unambiguous prefixes are accepted, `--name value` and `--name=value` are the same, lists run to
//! the next option, and a misspelt name or value is answered with the nearest one.
//!
//! A table of [`FlagSpec`] goes in, a [`Parsed`] set of typed values comes out, each knowing whether
//! it was given. The crate reads no environment, prints nothing and gives flags no meaning.

mod error;
mod help;
mod parse;
mod parsed;
mod spec;
mod suggest;
mod value;

pub use error::FlagError;
pub use parse::parse;
pub use parsed::{Parsed, Setting};
pub use spec::{Command, FlagSpec, Group, Kind, Positional, Preset, Takes};
pub use suggest::nearest;
pub use value::Value;

#[cfg(test)]
mod tests;
