//! Panics in other people's code, kept from spreading.

use std::panic::{AssertUnwindSafe, catch_unwind};

/// Runs code of a library on input from outside; a panic in it comes back as its message. The
/// libraries are only ever read from, so nothing of theirs is left half changed.
pub(crate) fn caught<T>(work: impl FnOnce() -> T) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(work)).map_err(|panic| {
        let text = panic.downcast_ref::<&str>().map(ToString::to_string);
        let said = text.or_else(|| panic.downcast_ref::<String>().cloned());
        said.unwrap_or_else(|| "no message".to_owned())
    })
}
