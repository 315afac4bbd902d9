//! Python calls with keyword arguments, and the literals in them, as JSON.

use serde_json::{Map, Number, Value};

/// Literals nested deeper than this are refused.
const MAX_DEPTH: usize = 64;

/// Reads `name(a=1, b="x")`; nothing else may be in the text.
pub(super) fn call(text: &str) -> Option<(String, Map<String, Value>)> {
    let mut reader = Reader { rest: text };
    let name = reader.name()?.to_owned();
    reader.expect('(')?;
    let mut arguments = Map::new();
    while !reader.eat(')') {
        let key = reader.name()?.to_owned();
        reader.expect('=')?;
        arguments.insert(key, reader.value(0)?);
        if !reader.eat(',') {
            reader.expect(')')?;
            break;
        }
    }
    reader.rest.trim().is_empty().then_some((name, arguments))
}

struct Reader<'a> {
    rest: &'a str,
}

impl<'a> Reader<'a> {
    fn peek(&mut self) -> Option<char> {
        self.rest = self.rest.trim_start();
        self.rest.chars().next()
    }

    fn eat(&mut self, character: char) -> bool {
        let found = self.peek() == Some(character);
        if found {
            self.rest = &self.rest[character.len_utf8()..];
        }
        found
    }

    fn expect(&mut self, character: char) -> Option<()> {
        self.eat(character).then_some(())
    }

    /// Takes characters while they belong.
    fn take(&mut self, belongs: impl Fn(char) -> bool) -> &'a str {
        self.peek();
        let end = self
            .rest
            .find(|character| !belongs(character))
            .unwrap_or(self.rest.len());
        let (taken, rest) = self.rest.split_at(end);
        self.rest = rest;
        taken
    }

    fn name(&mut self) -> Option<&'a str> {
        let name = self.take(is_name);
        name.starts_with(|first: char| !first.is_ascii_digit())
            .then_some(name)
    }

    fn value(&mut self, depth: usize) -> Option<Value> {
        if depth > MAX_DEPTH {
            return None;
        }
        match self.peek()? {
            '[' => self.list(']', depth).map(Value::Array),
            '(' => self.list(')', depth).map(Value::Array),
            '{' => self.dictionary(depth),
            '"' | '\'' => self.text().map(Value::String),
            '-' | '+' | '.' | '0'..='9' => self.number(),
            _ => match self.name()? {
                "True" | "true" => Some(Value::Bool(true)),
                "False" | "false" => Some(Value::Bool(false)),
                "None" | "null" => Some(Value::Null),
                _ => None,
            },
        }
    }

    fn list(&mut self, close: char, depth: usize) -> Option<Vec<Value>> {
        self.rest = &self.rest[1..];
        let mut items = Vec::new();
        while !self.eat(close) {
            items.push(self.value(depth + 1)?);
            if !self.eat(',') {
                self.expect(close)?;
                break;
            }
        }
        Some(items)
    }

    fn dictionary(&mut self, depth: usize) -> Option<Value> {
        self.expect('{')?;
        let mut fields = Map::new();
        while !self.eat('}') {
            let key = match self.value(depth + 1)? {
                Value::String(text) => text,
                Value::Array(_) | Value::Object(_) => return None,
                other => other.to_string(),
            };
            self.expect(':')?;
            fields.insert(key, self.value(depth + 1)?);
            if !self.eat(',') {
                self.expect('}')?;
                break;
            }
        }
        Some(Value::Object(fields))
    }

    fn number(&mut self) -> Option<Value> {
        let digits =
            self.take(|character| character.is_ascii_alphanumeric() || "+-._".contains(character));
        let digits = digits.replace('_', "");
        if let Ok(whole) = digits.parse::<i64>() {
            return Some(Value::from(whole));
        }
        Number::from_f64(digits.parse().ok()?).map(Value::Number)
    }

    fn text(&mut self) -> Option<String> {
        let quote = self.peek()?;
        let mut out = String::new();
        let mut characters = self.rest[1..].chars();
        loop {
            match characters.next()? {
                '\\' => match characters.next()? {
                    'n' => out.push('\n'),
                    't' => out.push('\t'),
                    'r' => out.push('\r'),
                    '\n' => {}
                    'x' => out.push(code_point(&mut characters, 2)?),
                    'u' => out.push(code_point(&mut characters, 4)?),
                    'U' => out.push(code_point(&mut characters, 8)?),
                    same @ ('\\' | '\'' | '"') => out.push(same),
                    other => {
                        out.push('\\');
                        out.push(other);
                    }
                },
                character if character == quote => break,
                character => out.push(character),
            }
        }
        self.rest = characters.as_str();
        Some(out)
    }
}

/// Whether a character may be in the name of a function or an argument.
pub(super) fn is_name(character: char) -> bool {
    character.is_alphanumeric() || matches!(character, '_' | '.' | '-')
}

fn code_point(characters: &mut std::str::Chars<'_>, digits: usize) -> Option<char> {
    let text: String = characters.take(digits).collect();
    char::from_u32(u32::from_str_radix(&text, 16).ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn literals_become_json() {
        let table = [
            ("f()", Some("f {}")),
            (
                "a.b_c( x = 1 , y='it\\'s' ,)",
                Some(r#"a.b_c {"x":1,"y":"it's"}"#),
            ),
            (
                "f(a=-1.5e3, b=True, c=None, d=[1, (2,), {}], e={'k': \"v\", 1: false})",
                Some(r#"f {"a":-1500.0,"b":true,"c":null,"d":[1,[2],{}],"e":{"k":"v","1":false}}"#),
            ),
            (
                r#"f(s="é\n\u00e9\x41\q")"#,
                Some("f {\"s\":\"é\\né\\u0041\\\\q\"}"),
            ),
            ("f(1)", None),
            ("f(a=)", None),
            ("f(a=b)", None),
            ("f(a=1", None),
            ("f(a='x)", None),
            ("1f()", None),
            ("f() g()", None),
        ];
        for (text, expected) in table {
            let got = call(text).map(|(name, map)| (name, Value::Object(map)));
            let expected = expected.map(|expected| {
                let (name, json) = expected.split_once(' ').unwrap();
                (name.to_owned(), serde_json::from_str(json).unwrap())
            });
            assert_eq!(got, expected, "{text}");
        }
        assert_eq!(call(&format!("f(a={}1)", "[".repeat(100_000))), None);
    }
}
