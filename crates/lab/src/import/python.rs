//! Python literals: what `Namespace(…)` is made of.

use serde_json::Value;

/// Literals may not nest deeper than this.
const DEEPEST: usize = 16;

/// The options of the first `Namespace(…)` in a line, in order.
pub(crate) fn namespace(line: &str) -> Option<Vec<(String, Value)>> {
    let (_, inside) = line.split_once("Namespace(")?;
    let mut reader = Reader { rest: inside };
    let mut pairs = Vec::new();
    loop {
        reader.blanks();
        if reader.take(")") {
            return Some(pairs);
        }
        let name = reader.name()?;
        if !reader.take("=") {
            return None;
        }
        pairs.push((name.to_owned(), reader.value(0)?));
        reader.blanks();
        if !reader.take(",") && !reader.rest.starts_with(')') {
            return None;
        }
    }
}

/// One literal, if the whole text is one.
pub(crate) fn literal(text: &str) -> Option<Value> {
    let mut reader = Reader { rest: text.trim() };
    let value = reader.value(0)?;
    reader.rest.is_empty().then_some(value)
}

struct Reader<'a> {
    rest: &'a str,
}

impl<'a> Reader<'a> {
    fn blanks(&mut self) {
        self.rest = self.rest.trim_start();
    }

    fn take(&mut self, mark: &str) -> bool {
        let after = self.rest.strip_prefix(mark);
        self.rest = after.unwrap_or(self.rest);
        after.is_some()
    }

    fn name(&mut self) -> Option<&'a str> {
        let part_of_name = |letter: char| letter.is_alphanumeric() || letter == '_';
        let end = self.rest.find(|letter| !part_of_name(letter))?;
        let (name, rest) = self.rest.split_at(end);
        self.rest = rest;
        (!name.is_empty()).then_some(name)
    }

    fn value(&mut self, depth: usize) -> Option<Value> {
        self.blanks();
        match self.rest.chars().next()? {
            '\'' | '"' => self.text().map(Value::String),
            '[' => self.list("[", "]", depth),
            '(' => self.list("(", ")", depth),
            _ => self.word(),
        }
    }

    fn list(&mut self, open: &str, close: &str, depth: usize) -> Option<Value> {
        if depth == DEEPEST || !self.take(open) {
            return None;
        }
        let mut values = Vec::new();
        loop {
            self.blanks();
            if self.take(close) {
                return Some(Value::Array(values));
            }
            values.push(self.value(depth + 1)?);
            self.blanks();
            if !self.take(",") && !self.rest.starts_with(close) {
                return None;
            }
        }
    }

    fn text(&mut self) -> Option<String> {
        let quote = self.rest.chars().next()?;
        let mut text = String::new();
        let mut letters = self.rest[1..].char_indices();
        while let Some((at, letter)) = letters.next() {
            match letter {
                end if end == quote => {
                    self.rest = &self.rest[at + 2..];
                    return Some(text);
                }
                '\\' => match letters.next()?.1 {
                    'n' => text.push('\n'),
                    't' => text.push('\t'),
                    'r' => text.push('\r'),
                    other => text.push(other),
                },
                other => text.push(other),
            }
        }
        None
    }

    fn word(&mut self) -> Option<Value> {
        let ends = |letter: char| matches!(letter, ',' | ')' | ']') || letter.is_whitespace();
        let end = self.rest.find(ends).unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(end);
        self.rest = rest;
        match word {
            "None" => Some(Value::Null),
            "True" => Some(Value::Bool(true)),
            "False" => Some(Value::Bool(false)),
            "inf" | "-inf" | "nan" => Some(Value::String(word.to_owned())),
            _ => {
                let whole = word.parse::<i64>().ok().map(Value::from);
                whole.or_else(|| {
                    let number: f64 = word.parse().ok()?;
                    serde_json::Number::from_f64(number).map(Value::Number)
                })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn an_echo_of_options_is_read() {
        let line = r#"benchmark_args=Namespace(backend='sglang', base_url=None, rate=inf, ratio=1.0,
            n=256, on=True, activities=['CPU', 'GPU'], suffix='', path="it's", nothing=[])"#;
        let expected = [
            ("backend", json!("sglang")),
            ("base_url", json!(null)),
            ("rate", json!("inf")),
            ("ratio", json!(1.0)),
            ("n", json!(256)),
            ("on", json!(true)),
            ("activities", json!(["CPU", "GPU"])),
            ("suffix", json!("")),
            ("path", json!("it's")),
            ("nothing", json!([])),
        ];
        let expected = expected.map(|(name, value)| (name.to_owned(), value));
        assert_eq!(namespace(line).unwrap(), expected);
    }

    #[test]
    fn a_damaged_echo_is_no_echo() {
        for line in [
            "Namespace(",
            "Namespace(a)",
            "Namespace(a=)",
            "Namespace(a='x",
            "Namespace(a=1",
            "Namespace(a=[1)",
            "Namespace(a=1 b=2)",
            "no echo",
        ] {
            assert_eq!(namespace(line), None, "{line}");
        }
        let deep = format!("Namespace(a={}", "[".repeat(100_000));
        assert_eq!(namespace(&deep), None);
    }

    #[test]
    fn a_literal_is_the_whole_text() {
        assert_eq!(literal("20.0"), Some(json!(20.0)));
        assert_eq!(literal("20.0 req"), None);
    }
}
