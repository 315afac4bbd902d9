//! Writing to strings.

use std::fmt::{Arguments, Write};

/// Appends formatted words to a string, which cannot fail.
pub(crate) fn put(out: &mut String, words: Arguments<'_>) {
    out.write_fmt(words)
        .expect("a string takes all that is written to it");
}
