//! Values as Python prints them: `str()` for what is printed, `repr()` for what is inside of it.

use std::borrow::Cow;
use std::fmt::Write;

use minijinja::value::ValueKind;
use minijinja::{Error, ErrorKind, Value};

/// JSON from outside is never deeper; a namespace that holds itself is.
const MAX_DEPTH: usize = 160;

/// An error for a value in which values are nested too deep to be written.
pub(super) fn check_depth(depth: usize) -> Result<(), Error> {
    if depth < MAX_DEPTH {
        return Ok(());
    }
    let message = format!("a value that holds values more than {MAX_DEPTH} deep cannot be written");
    Err(Error::new(ErrorKind::InvalidOperation, message))
}

/// A value as `str()` gives it.
pub(super) fn text(value: &Value) -> Result<Cow<'_, str>, Error> {
    if let Some(text) = value.as_str() {
        return Ok(Cow::Borrowed(text));
    }
    let mut out = String::new();
    write_repr(value, 0, &mut out)?;
    Ok(Cow::Owned(out))
}

fn write_repr(value: &Value, depth: usize, out: &mut String) -> Result<(), Error> {
    check_depth(depth)?;
    match value.kind() {
        ValueKind::String => write_text(value.as_str().unwrap_or_default(), out),
        ValueKind::Number if !value.is_integer() => match f64::try_from(value.clone()) {
            Ok(number) => out.push_str(&float(number)),
            Err(_) => write_display(value, out),
        },
        ValueKind::Seq if !value.is_tuple() => {
            out.push('[');
            for (index, item) in value.try_iter().into_iter().flatten().enumerate() {
                separate(index, out);
                write_repr(&item, depth + 1, out)?;
            }
            out.push(']');
        }
        ValueKind::Map => {
            out.push('{');
            for (index, key) in value.try_iter().into_iter().flatten().enumerate() {
                separate(index, out);
                write_repr(&key, depth + 1, out)?;
                out.push_str(": ");
                write_repr(&value.get_item(&key).unwrap_or_default(), depth + 1, out)?;
            }
            out.push('}');
        }
        _ => write_display(value, out),
    }
    Ok(())
}

fn separate(index: usize, out: &mut String) {
    if index > 0 {
        out.push_str(", ");
    }
}

fn write_display(value: &Value, out: &mut String) {
    write!(out, "{value}").expect("writing to a string cannot fail");
}

/// A float as Python writes it: the shortest that reads back the same, with an exponent from 1e16.
pub(super) fn float(number: f64) -> String {
    if !number.is_finite() {
        return if number.is_nan() {
            "nan".to_owned()
        } else {
            format!("{}inf", if number < 0.0 { "-" } else { "" })
        };
    }
    let text = format!("{number:?}");
    let Some((digits, exponent)) = text.split_once('e') else {
        return text;
    };
    let exponent: i32 = exponent
        .parse()
        .expect("the exponent of a formatted float is a number");
    let digits = digits.strip_suffix(".0").unwrap_or(digits);
    format!("{digits}e{exponent:+03}")
}

/// Quoted with `'`, or with `"` if that saves escaping.
fn write_text(text: &str, out: &mut String) {
    let quote = if text.contains('\'') && !text.contains('"') {
        '"'
    } else {
        '\''
    };
    out.push(quote);
    for character in text.chars() {
        let code = character as u32;
        match character {
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            _ if character == quote => {
                out.push('\\');
                out.push(quote);
            }
            _ if is_printable(character) => out.push(character),
            _ => {
                let written = match code {
                    0..=0xff => write!(out, "\\x{code:02x}"),
                    0x100..=0xffff => write!(out, "\\u{code:04x}"),
                    _ => write!(out, "\\U{code:08x}"),
                };
                written.expect("writing to a string cannot fail");
            }
        }
    }
    out.push(quote);
}

/// Spaces other than U+0020, controls, and the invisible signs in use are not printable.
fn is_printable(character: char) -> bool {
    if character == ' ' {
        return true;
    }
    let invisible = matches!(
        character,
        '\u{ad}'
            | '\u{61c}'
            | '\u{180e}'
            | '\u{200b}'..='\u{200f}'
            | '\u{202a}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}'
            | '\u{e000}'..='\u{f8ff}'
            | '\u{feff}'
            | '\u{fff9}'..='\u{fffb}'
            | '\u{e0000}'..='\u{e0fff}'
            | '\u{f0000}'..='\u{10ffff}'
    );
    !(invisible || character.is_control() || character.is_whitespace())
}

#[cfg(test)]
mod tests {
    use minijinja::value::Serde;
    use serde_json::json;

    use super::*;

    #[test]
    fn values_print_as_in_python() {
        let table = [
            (json!("it's \"so\"\n"), "it's \"so\"\n"),
            (json!(null), "None"),
            (json!([true, false, null]), "[True, False, None]"),
            (
                json!([1, 2.5, 1e20, 1e16, 123_456_789.0, -3e-7, 0.0001, 1.5e-5]),
                "[1, 2.5, 1e+20, 1e+16, 123456789.0, -3e-07, 0.0001, 1.5e-05]",
            ),
            (
                json!({"a": "it's", "b": "\"", "c": "'\""}),
                "{'a': \"it's\", 'b': '\"', 'c': '\\'\"'}",
            ),
            (
                json!(["tab\t nul\u{0} é \u{a0} 🦅 \u{200b}\\"]),
                "['tab\\t nul\\x00 é \\xa0 🦅 \\u200b\\\\']",
            ),
            (json!({}), "{}"),
            (json!([]), "[]"),
        ];
        for (value, expected) in table {
            assert_eq!(text(&Value::from(Serde(&value))).unwrap(), expected);
        }
    }
}
