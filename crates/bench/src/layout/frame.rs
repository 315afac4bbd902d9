//! Lines of a label and a value in fifty columns.

use std::fmt::{Display, Write};

const WIDTH: usize = 50;

/// A table under construction.
#[derive(Clone, Debug, Default)]
pub struct Frame {
    text: String,
}

impl Frame {
    /// A table that opens with an empty line and its title.
    pub fn titled(title: &str) -> Self {
        let mut frame = Self::default();
        frame.line(&format!("\n{title:=^WIDTH$}"));
        frame
    }

    /// A line across the table with words in its middle.
    pub fn head(&mut self, title: &str) {
        self.line(&format!("{title:-^WIDTH$}"));
    }

    /// A label and whatever belongs to it.
    pub fn word(&mut self, label: &str, value: impl Display) {
        let value = value.to_string();
        self.line(&format!("{label:<40} {value:<10}"));
    }

    /// A label and a number with two decimals.
    pub fn number(&mut self, label: &str, value: f64) {
        self.word(label, two_decimals(value));
    }

    /// A line as it is.
    pub fn line(&mut self, line: &str) {
        writeln!(self.text, "{line}").expect("a string takes all that is written to it");
    }

    /// The whole table, closed.
    pub fn closed(mut self) -> String {
        self.line(&"=".repeat(WIDTH));
        self.text
    }
}

/// A number as the reference prints it; what is undefined is not available.
fn two_decimals(value: f64) -> String {
    if value.is_nan() {
        "n/a".to_owned()
    } else {
        format!("{value:.2}")
    }
}
