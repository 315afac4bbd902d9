//! `tojson` as templates expect it: Python's `json.dumps` with its spacing, numbers and escapes.

use std::fmt::Write;

use minijinja::value::{Kwargs, ValueKind};
use minijinja::{Error, ErrorKind, Value};

use super::python_repr;

/// The filter `tojson(value, ensure_ascii=False, indent=None, separators=None, sort_keys=False)`.
#[expect(
    clippy::needless_pass_by_value,
    reason = "the engine hands keyword arguments over by value"
)]
pub(super) fn tojson(
    value: &Value,
    ensure_ascii: Option<bool>,
    options: Kwargs,
) -> Result<String, Error> {
    let option = |name: &str| {
        let value: Option<Value> = options.get(name)?;
        Ok::<_, Error>(value.filter(|value| !value.is_none()))
    };
    let indent = option("indent")?.map(|indent| unit_of(&indent));
    let (mut item, mut key) = (
        if indent.is_some() { "," } else { ", " }.to_owned(),
        ": ".to_owned(),
    );
    if let Some(pair) = option("separators")? {
        item = pair.get_item(&Value::from(0))?.to_string();
        key = pair.get_item(&Value::from(1))?.to_string();
    }
    let is = |name: &str| Ok::<_, Error>(option(name)?.is_some_and(|value| value.is_true()));
    let writer = Writer {
        item,
        key,
        indent,
        ensure_ascii: ensure_ascii.unwrap_or(is("ensure_ascii")?),
        sort_keys: is("sort_keys")?,
    };
    options.assert_all_used()?;
    let mut out = String::new();
    writer.write(value, 0, &mut out)?;
    Ok(out)
}

/// One level of indentation: that many spaces, or the text given.
fn unit_of(indent: &Value) -> String {
    match indent.as_str() {
        Some(text) => text.to_owned(),
        None => " ".repeat(indent.as_usize().unwrap_or(0).min(64)),
    }
}

struct Writer {
    item: String,
    key: String,
    indent: Option<String>,
    ensure_ascii: bool,
    sort_keys: bool,
}

impl Writer {
    fn write(&self, value: &Value, depth: usize, out: &mut String) -> Result<(), Error> {
        python_repr::check_depth(depth)?;
        match value.kind() {
            ValueKind::None => out.push_str("null"),
            ValueKind::Bool => out.push_str(if value.is_true() { "true" } else { "false" }),
            ValueKind::Number => out.push_str(&number(value)),
            ValueKind::String => self.write_text(value.as_str().unwrap_or_default(), out),
            ValueKind::Seq | ValueKind::Iterable => {
                let items = value.try_iter()?.map(|item| (None, item)).collect();
                self.write_items(items, ['[', ']'], depth, out)?;
            }
            ValueKind::Map => {
                let mut items = Vec::new();
                for key in value.try_iter()? {
                    let item = value.get_item(&key)?;
                    items.push((Some(key_text(&key)?), item));
                }
                if self.sort_keys {
                    items.sort_by(|(a, _), (b, _)| a.cmp(b));
                }
                self.write_items(items, ['{', '}'], depth, out)?;
            }
            kind => {
                let message = format!("a value of type {kind} cannot be written as JSON");
                return Err(Error::new(ErrorKind::InvalidOperation, message));
            }
        }
        Ok(())
    }

    fn write_items(
        &self,
        items: Vec<(Option<String>, Value)>,
        brackets: [char; 2],
        depth: usize,
        out: &mut String,
    ) -> Result<(), Error> {
        let empty = items.is_empty();
        out.push(brackets[0]);
        for (index, (key, item)) in items.into_iter().enumerate() {
            if index > 0 {
                out.push_str(&self.item);
            }
            self.new_line(depth + 1, out);
            if let Some(key) = key {
                self.write_text(&key, out);
                out.push_str(&self.key);
            }
            self.write(&item, depth + 1, out)?;
        }
        if !empty {
            self.new_line(depth, out);
        }
        out.push(brackets[1]);
        Ok(())
    }

    fn new_line(&self, depth: usize, out: &mut String) {
        if let Some(unit) = &self.indent {
            out.push('\n');
            for _ in 0..depth {
                out.push_str(unit);
            }
        }
    }

    fn write_text(&self, text: &str, out: &mut String) {
        out.push('"');
        for character in text.chars() {
            match character {
                '"' => out.push_str("\\\""),
                '\\' => out.push_str("\\\\"),
                '\n' => out.push_str("\\n"),
                '\r' => out.push_str("\\r"),
                '\t' => out.push_str("\\t"),
                '\u{8}' => out.push_str("\\b"),
                '\u{c}' => out.push_str("\\f"),
                '\0'..='\u{1f}' => push_escape(character as u16, out),
                _ if self.ensure_ascii && !character.is_ascii() => {
                    for unit in character.encode_utf16(&mut [0; 2]) {
                        push_escape(*unit, out);
                    }
                }
                _ => out.push(character),
            }
        }
        out.push('"');
    }
}

fn push_escape(unit: u16, out: &mut String) {
    write!(out, "\\u{unit:04x}").expect("writing to a string cannot fail");
}

fn number(value: &Value) -> String {
    if value.is_integer() {
        return value.to_string();
    }
    match f64::try_from(value.clone()) {
        Ok(number) if number.is_nan() => "NaN".to_owned(),
        Ok(f64::INFINITY) => "Infinity".to_owned(),
        Ok(f64::NEG_INFINITY) => "-Infinity".to_owned(),
        Ok(number) => python_repr::float(number),
        Err(_) => value.to_string(),
    }
}

/// Keys of Python dictionaries may be numbers and such; JSON writes them as text.
fn key_text(key: &Value) -> Result<String, Error> {
    Ok(match key.kind() {
        ValueKind::String => key.as_str().unwrap_or_default().to_owned(),
        ValueKind::Bool => if key.is_true() { "true" } else { "false" }.to_owned(),
        ValueKind::None => "null".to_owned(),
        ValueKind::Number => number(key),
        kind => {
            let message = format!("a key of type {kind} cannot be written as JSON");
            return Err(Error::new(ErrorKind::InvalidOperation, message));
        }
    })
}
