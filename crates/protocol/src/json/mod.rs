//! JSON from strangers: parsed within a budget, read with the path of every mistake.

mod lax;
mod one_or_many;
mod parse;
mod path;
mod read;
mod record;
mod scalar;
pub(crate) mod schema;

pub use one_or_many::OneOrMany;
pub use parse::{Json, SyntaxError};
pub use path::Path;
pub use read::{Fields, FromFields, FromJson, ReadError, Unknown, read, read_noting};
pub(crate) use record::record;
