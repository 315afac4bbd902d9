//! The resolved settings, for people.

use std::fmt::Write as _;

use super::Resolved;

/// One line a value: name, value, reason.
pub(crate) fn table(values: &[Resolved]) -> String {
    let width = |of: fn(&Resolved) -> usize| values.iter().map(of).max().unwrap_or(0);
    let names = width(|value| value.name.len());
    let numbers = width(|value| value.value.chars().count());
    values.iter().fold(String::new(), |mut text, value| {
        let _ = writeln!(
            text,
            "{:names$}  {:numbers$}  {}",
            value.name, value.value, value.why
        );
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up() {
        let row = |name, value: &str, why: &str| Resolved {
            name,
            value: value.into(),
            why: why.into(),
        };
        let rows = [row("a", "10", "given"), row("long", "1", "default")];
        assert_eq!(table(&rows), "a     10  given\nlong  1   default\n");
    }
}
