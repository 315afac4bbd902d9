//! Where a JSON value ends, found one character at a time.

use super::Output;
use crate::markers::Cutter;

/// Follows one JSON value; it counts brackets and strings and does not judge what is in them.
#[derive(Clone, Debug)]
pub(super) struct JsonSpan {
    depth: usize,
    string: bool,
    escaped: bool,
    scalar: bool,
}

/// What a character is to the value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Span {
    /// A part of it.
    Inside,
    /// Its last character.
    Last,
    /// Already behind it.
    Behind,
}

impl JsonSpan {
    /// A value that begins with this character.
    pub(super) fn new(first: char) -> Self {
        let nested = matches!(first, '{' | '[');
        let string = first == '"';
        Self {
            depth: usize::from(nested),
            string,
            escaped: false,
            scalar: !nested && !string,
        }
    }

    pub(super) fn feed(&mut self, character: char) -> Span {
        if self.scalar {
            let ends = matches!(character, ',' | '}' | ']') || character.is_whitespace();
            return if ends { Span::Behind } else { Span::Inside };
        }
        if self.string {
            match character {
                _ if self.escaped => self.escaped = false,
                '\\' => self.escaped = true,
                '"' => self.string = false,
                _ => {}
            }
            let ends = !self.string && self.depth == 0;
            return if ends { Span::Last } else { Span::Inside };
        }
        match character {
            '"' => self.string = true,
            '{' | '[' => self.depth += 1,
            '}' | ']' => self.depth -= 1,
            _ => {}
        }
        if self.depth == 0 {
            Span::Last
        } else {
            Span::Inside
        }
    }
}

/// Arguments written as they are, from their opening bracket to their end.
#[derive(Clone, Debug, Default)]
pub(super) struct Arguments {
    span: Option<JsonSpan>,
}

impl Arguments {
    /// Passes arguments on; true when they have ended. What comes before them is dropped.
    pub(super) fn pass(&mut self, cutter: &mut Cutter, output: &mut Output) -> bool {
        while let Some(character) = cutter.character() {
            let span = match &mut self.span {
                Some(span) => span.feed(character),
                None if character == '{' => {
                    self.span = Some(JsonSpan::new(character));
                    Span::Inside
                }
                None => continue,
            };
            output.arguments(character.encode_utf8(&mut [0; 4]));
            if span == Span::Last {
                return true;
            }
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_end_where_their_brackets_and_quotes_do() {
        let table = [
            (
                r#"{"a": "}\"{", "b": [1, {}]} rest"#,
                r#"{"a": "}\"{", "b": [1, {}]}"#,
            ),
            (r#""a\\" rest"#, r#""a\\""#),
            ("12.5, rest", "12.5"),
            ("null}", "null"),
            ("[]x", "[]"),
        ];
        for (text, expected) in table {
            let mut characters = text.chars();
            let mut value = String::from(characters.next().unwrap());
            let mut span = JsonSpan::new(value.chars().next().unwrap());
            for character in characters {
                match span.feed(character) {
                    Span::Inside => value.push(character),
                    Span::Last => {
                        value.push(character);
                        break;
                    }
                    Span::Behind => break,
                }
            }
            assert_eq!(value, expected);
        }
    }
}
