//! Messages of the harmony format that go to a function.

use super::Output;
use crate::markers::Cutter;

const CHANNEL: &str = "<|channel|>";
const MESSAGE: &str = "<|message|>";
const START: &str = "<|start|>";
const ENDS: [&str; 3] = ["<|end|>", "<|return|>", "<|call|>"];

#[derive(Clone, Debug, Default)]
pub(super) struct GptOss {
    cutter: Cutter,
    state: State,
}

#[derive(Clone, Debug, Default)]
enum State {
    #[default]
    Outside,
    Header(String),
    Content,
    Arguments {
        said: bool,
    },
}

impl GptOss {
    pub(super) fn push(&mut self, text: &str, output: &mut Output) {
        self.cutter.push(text);
        while self.step(output) {}
    }

    fn step(&mut self, output: &mut Output) -> bool {
        match &mut self.state {
            State::Outside => {
                let cut = self
                    .cutter
                    .cut(&[CHANNEL, START, ENDS[0], ENDS[1], ENDS[2]]);
                output.content(&cut.before);
                match cut.marker {
                    Some(0 | 1) => self.state = State::Header(String::new()),
                    Some(_) => {}
                    None => return false,
                }
                true
            }
            State::Header(header) => {
                let cut = self.cutter.cut(&[MESSAGE]);
                header.push_str(&cut.before);
                if cut.marker.is_none() {
                    return false;
                }
                self.state = match recipient(header) {
                    Some(name) => {
                        output.call(name);
                        State::Arguments { said: false }
                    }
                    None => State::Content,
                };
                true
            }
            State::Content => {
                let cut = self.cutter.cut(&ENDS);
                output.content(&cut.before);
                if cut.marker.is_some() {
                    self.state = State::Outside;
                }
                cut.marker.is_some()
            }
            State::Arguments { said } => {
                let cut = self.cutter.cut(&ENDS);
                *said |= !cut.before.is_empty();
                output.arguments(&cut.before);
                if cut.marker.is_none() {
                    return false;
                }
                if !*said {
                    output.arguments("{}");
                }
                self.state = State::Outside;
                true
            }
        }
    }

    pub(super) fn flush(&mut self, output: &mut Output) {
        let rest = self.cutter.rest();
        match self.state {
            State::Outside | State::Content => output.content(&rest),
            State::Arguments { .. } => output.arguments(&rest),
            State::Header(_) => {}
        }
    }
}

/// The function in a header such as `commentary to=functions.get_weather <|constrain|>json`.
fn recipient(header: &str) -> Option<&str> {
    let (_, to) = header.split_once("to=")?;
    let name = to
        .split(|character: char| character.is_whitespace() || character == '<')
        .next()?;
    let name = name.strip_prefix("functions.").unwrap_or(name);
    (!name.is_empty()).then_some(name)
}
