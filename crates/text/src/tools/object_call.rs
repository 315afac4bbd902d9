//! A call written as a JSON object with a name and arguments.

use super::Output;
use super::json_span::{JsonSpan, Span};
use crate::markers::Cutter;

/// Reads one object; says the name as soon as it is known and then the arguments as they come.
#[derive(Clone, Debug, Default)]
pub(super) struct ObjectCall {
    at: At,
    key: String,
    value: String,
    span: Option<JsonSpan>,
    /// Arguments that came before the name.
    early: Option<String>,
    named: bool,
    argued: bool,
    /// All that was read before the name was known.
    raw: String,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum At {
    #[default]
    Start,
    Key,
    InKey,
    Colon,
    Value,
    Name,
    Arguments,
    StreamedArguments,
    Other,
    AfterValue,
}

/// How reading went.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Progress {
    /// The text is used up and the object has not ended.
    More,
    /// The object has ended and was a call.
    Called,
    /// It is no call; this is the text that was read.
    Refused(String),
    /// It was a call, but what follows its name is no JSON.
    Broken,
}

impl ObjectCall {
    /// Reads on; stops behind the object.
    pub(super) fn read(&mut self, cutter: &mut Cutter, output: &mut Output) -> Progress {
        while let Some(character) = cutter.character() {
            if !self.named {
                self.raw.push(character);
            }
            match self.feed(character, output) {
                Some(true) => return Progress::Called,
                Some(false) if self.named => return Progress::Broken,
                Some(false) => return Progress::Refused(std::mem::take(&mut self.raw)),
                None => {}
            }
        }
        Progress::More
    }

    /// What was read, when the text ends inside an object that never was a call.
    pub(super) fn unsaid(&mut self) -> Option<String> {
        (!self.named).then(|| std::mem::take(&mut self.raw))
    }

    /// Takes a character; says whether the object has ended, and if so whether as a call.
    fn feed(&mut self, character: char, output: &mut Output) -> Option<bool> {
        if self.span.is_some() {
            return self.feed_value(character, output);
        }
        match (self.at, character) {
            (At::InKey, '"') => self.at = At::Colon,
            (At::InKey, _) => self.key.push(character),
            (_, character) if character.is_whitespace() => {}
            (At::Start, '{') | (At::AfterValue, ',') => self.at = At::Key,
            (At::Key, '"') => {
                self.key.clear();
                self.at = At::InKey;
            }
            (At::Colon, ':') => self.at = At::Value,
            (At::Key | At::AfterValue, '}') => return Some(self.end(output)),
            (At::Value, ',' | '}' | ']' | ':') => return Some(false),
            (At::Value, _) => self.begin_value(character, output),
            _ => return Some(false),
        }
        None
    }

    fn begin_value(&mut self, character: char, output: &mut Output) {
        self.at = match self.key.as_str() {
            "name" if !self.named => At::Name,
            "arguments" | "parameters" if self.argued => At::Other,
            "arguments" | "parameters" if self.named && character == '{' => At::StreamedArguments,
            "arguments" | "parameters" => At::Arguments,
            _ => At::Other,
        };
        self.span = Some(JsonSpan::new(character));
        self.value.clear();
        self.keep(character, output);
    }

    fn keep(&mut self, character: char, output: &mut Output) {
        match self.at {
            At::StreamedArguments => output.arguments(character.encode_utf8(&mut [0; 4])),
            At::Name | At::Arguments => self.value.push(character),
            _ => {}
        }
    }

    fn feed_value(&mut self, character: char, output: &mut Output) -> Option<bool> {
        let place = self.span.as_mut()?.feed(character);
        if place != Span::Behind {
            self.keep(character, output);
        }
        if place == Span::Inside {
            return None;
        }
        self.span = None;
        if !self.end_value(output) {
            return Some(false);
        }
        self.at = At::AfterValue;
        if place == Span::Behind {
            self.feed(character, output)
        } else {
            None
        }
    }

    fn end_value(&mut self, output: &mut Output) -> bool {
        match self.at {
            At::Name => {
                let Ok(name) = serde_json::from_str::<String>(&self.value) else {
                    return false;
                };
                if name.is_empty() {
                    return false;
                }
                output.call(&name);
                output.arguments(&self.early.take().unwrap_or_default());
                self.named = true;
                self.raw.clear();
            }
            At::Arguments => {
                let text = arguments_text(&self.value);
                self.argued = true;
                if self.named {
                    output.arguments(&text);
                } else {
                    self.early = Some(text);
                }
            }
            At::StreamedArguments => self.argued = true,
            _ => {}
        }
        true
    }

    fn end(&self, output: &mut Output) -> bool {
        if self.named && !self.argued {
            output.arguments("{}");
        }
        self.named
    }
}

/// Some models write the arguments as text with JSON in it, or `null` for none.
fn arguments_text(value: &str) -> String {
    match serde_json::from_str(value) {
        Ok(serde_json::Value::String(inner)) => inner,
        Ok(serde_json::Value::Null) => "{}".to_owned(),
        _ => value.to_owned(),
    }
}
