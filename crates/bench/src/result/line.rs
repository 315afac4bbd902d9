//! One result as one line of JSON, its keys in order.

use crate::python_text;
use serde_json::Value;
use std::fmt::Write;

/// A value of a result line.
#[derive(Clone, Debug, PartialEq)]
pub enum Field {
    /// Anything that JSON knows.
    Json(Value),
    /// A number that may be undefined or infinite.
    Float(f64),
    /// Several.
    Floats(Vec<f64>),
    /// Several of several.
    FloatLists(Vec<Vec<f64>>),
}

impl<T: Into<Value>> From<T> for Field {
    fn from(value: T) -> Self {
        Self::Json(value.into())
    }
}

/// How numbers that JSON does not know are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    /// As the reference writes them: `NaN` and `Infinity`, which JSON readers refuse.
    Reference,
    /// As JSON allows: null, and the text "inf".
    Valid,
}

/// A result under construction.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ResultLine {
    fields: Vec<(String, Field)>,
}

impl ResultLine {
    /// Adds a key.
    pub fn add(&mut self, key: impl Into<String>, field: impl Into<Field>) {
        self.fields.push((key.into(), field.into()));
    }

    /// Adds a number that may be undefined.
    pub fn add_float(&mut self, key: impl Into<String>, number: f64) {
        self.fields.push((key.into(), Field::Float(number)));
    }

    /// Adds a field as it is.
    pub fn add_field(&mut self, key: impl Into<String>, field: Field) {
        self.fields.push((key.into(), field));
    }

    /// The keys, in order.
    pub fn keys(&self) -> Vec<&str> {
        self.fields.iter().map(|(key, _)| key.as_str()).collect()
    }

    /// The line, its end included.
    pub fn text(&self, style: Style) -> String {
        let mut out = String::from("{");
        for (place, (key, field)) in self.fields.iter().enumerate() {
            if place > 0 {
                out.push_str(", ");
            }
            out.push_str(&python_text::json(&Value::from(key.as_str())));
            out.push_str(": ");
            write_field(&mut out, field, style);
        }
        out.push_str("}\n");
        out
    }
}

fn write_field(out: &mut String, field: &Field, style: Style) {
    match field {
        Field::Json(value) => out.push_str(&python_text::json(value)),
        Field::Float(number) => write_float(out, *number, style),
        Field::Floats(numbers) => write_floats(out, numbers, style),
        Field::FloatLists(lists) => {
            write_list(out, lists, |out, numbers| write_floats(out, numbers, style));
        }
    }
}

fn write_floats(out: &mut String, numbers: &[f64], style: Style) {
    write_list(out, numbers, |out, number| write_float(out, *number, style));
}

fn write_list<T>(out: &mut String, items: &[T], write: impl Fn(&mut String, &T)) {
    out.push('[');
    for (place, item) in items.iter().enumerate() {
        if place > 0 {
            out.push_str(", ");
        }
        write(out, item);
    }
    out.push(']');
}

fn write_float(out: &mut String, number: f64, style: Style) {
    let text = match style {
        _ if number.is_finite() => python_text::float(number),
        Style::Valid if number.is_nan() => "null".to_owned(),
        Style::Reference if number.is_nan() => "NaN".to_owned(),
        Style::Valid => format!("\"{}\"", python_text::float(number)),
        Style::Reference => {
            if number > 0.0 {
                "Infinity".to_owned()
            } else {
                "-Infinity".to_owned()
            }
        }
    };
    write!(out, "{text}").expect("a string takes all that is written to it");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn undefined_numbers_are_written_in_either_style() {
        let mut line = ResultLine::default();
        line.add("tag", Value::Null);
        line.add_float("rate", f64::INFINITY);
        line.add_float("mean", f64::NAN);
        line.add_field("itls", Field::FloatLists(vec![vec![0.5, 1.0], vec![]]));
        assert_eq!(
            line.text(Style::Reference),
            "{\"tag\": null, \"rate\": Infinity, \"mean\": NaN, \"itls\": [[0.5, 1.0], []]}\n"
        );
        let valid = line.text(Style::Valid);
        assert!(valid.contains("\"rate\": \"inf\", \"mean\": null"));
        serde_json::from_str::<Value>(&valid).unwrap();
    }
}
