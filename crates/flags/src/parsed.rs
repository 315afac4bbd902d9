//! The values of a parsed command line, typed and with their origin.

use crate::spec::FlagSpec;
use crate::value::Value;

/// One flag after parsing.
#[derive(Debug, Clone, PartialEq)]
pub struct Setting {
    /// The flag.
    pub flag: FlagSpec,
    /// Its value, given or default.
    pub value: Value,
    /// The spelling it was given by, with dashes; `None` when it has its default.
    pub spelled: Option<String>,
}

/// All flags of a command line in the order of declaration, and the words between them.
#[derive(Debug, Clone, PartialEq)]
pub struct Parsed {
    pub(crate) settings: Vec<Setting>,
    pub(crate) words: Vec<String>,
}

impl Parsed {
    /// Every flag in the order of declaration.
    pub fn settings(&self) -> &[Setting] {
        &self.settings
    }

    /// The words that belong to no flag.
    pub fn words(&self) -> &[String] {
        &self.words
    }

    /// The flag with this name or alias (without dashes). Panics when the table has none.
    pub fn setting(&self, name: &str) -> &Setting {
        let found = self
            .settings
            .iter()
            .find(|setting| setting.flag.is_named(name));
        found.unwrap_or_else(|| panic!("the table declares a flag named {name}"))
    }

    /// Whether the flag was on the command line.
    pub fn given(&self, name: &str) -> bool {
        self.setting(name).spelled.is_some()
    }

    /// The value of a flag, given or default.
    pub fn value(&self, name: &str) -> &Value {
        &self.setting(name).value
    }

    /// Whether a switch is on; an unset one is off.
    pub fn switch(&self, name: &str) -> bool {
        matches!(self.value(name), Value::Switch(true))
    }

    /// The text of a flag.
    pub fn text(&self, name: &str) -> Option<&str> {
        match self.value(name) {
            Value::Text(text) => Some(text),
            _ => None,
        }
    }

    /// The whole number of a flag.
    pub fn integer(&self, name: &str) -> Option<i64> {
        match self.value(name) {
            Value::Integer(number) => Some(*number),
            _ => None,
        }
    }

    /// The number of a flag; a whole one counts.
    pub fn float(&self, name: &str) -> Option<f64> {
        match self.value(name) {
            Value::Float(number) => Some(*number),
            Value::Integer(number) => Some(*number as f64),
            _ => None,
        }
    }

    /// The words of a list flag.
    pub fn list(&self, name: &str) -> Option<Vec<&str>> {
        let Value::List(values) = self.value(name) else {
            return None;
        };
        let texts = values.iter().map(|value| match value {
            Value::Text(text) => Some(text.as_str()),
            _ => None,
        });
        texts.collect()
    }

    /// The whole numbers of a list flag.
    pub fn integers(&self, name: &str) -> Option<Vec<i64>> {
        let Value::List(values) = self.value(name) else {
            return None;
        };
        let numbers = values.iter().map(|value| match value {
            Value::Integer(number) => Some(*number),
            _ => None,
        });
        numbers.collect()
    }

    /// Replaces a value that the program worked out; its origin stays as it was.
    pub fn set(&mut self, name: &str, value: Value) {
        let found = self
            .settings
            .iter_mut()
            .find(|setting| setting.flag.is_named(name));
        found
            .unwrap_or_else(|| panic!("the table declares a flag named {name}"))
            .value = value;
    }

    /// `Namespace(key=value, …)` with Python literals, for the flags that `shown` accepts.
    pub fn namespace(&self, shown: impl Fn(&FlagSpec) -> bool) -> String {
        let pairs: Vec<String> = self
            .settings
            .iter()
            .filter(|setting| shown(&setting.flag))
            .map(|setting| format!("{}={}", setting.flag.echo_key(), setting.value))
            .collect();
        format!("Namespace({})", pairs.join(", "))
    }
}
