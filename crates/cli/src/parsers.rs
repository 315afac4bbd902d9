//! The parsers of thinking and of tool calls that the arguments name.

use std::fmt::Display;
use std::str::FromStr;

use flags::Parsed;
use text::{ReasoningFormat, ToolFormat};

use crate::args::Notice;

/// The formats to look for in what a model says, and names that mean nothing here yet.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Parsers {
    /// How the model marks its thinking.
    pub(crate) reasoning: Option<ReasoningFormat>,
    /// How the model writes calls of functions.
    pub(crate) tools: Option<ToolFormat>,
    /// Parsers of SGLang that are not here.
    pub(crate) notices: Vec<Notice>,
}

impl Parsers {
    /// Reads `--reasoning-parser` and `--tool-call-parser`.
    pub(crate) fn of(parsed: &Parsed) -> Self {
        let mut notices = Vec::new();
        let reasoning = named(parsed, "reasoning-parser", &mut notices);
        let tools = named(parsed, "tool-call-parser", &mut notices);
        Self {
            reasoning,
            tools,
            notices,
        }
    }
}

fn named<T>(parsed: &Parsed, flag: &str, notices: &mut Vec<Notice>) -> Option<T>
where
    T: FromStr<Err: Display>,
{
    match parsed.text(flag)?.parse() {
        Ok(format) => Some(format),
        Err(error) => {
            notices.push(Notice {
                flag: format!("--{flag}"),
                reason: error.to_string(),
            });
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::ServerCommand;

    const SERVE: ServerCommand = ServerCommand {
        program: "peregrine serve",
        about: "",
        positionals: &[],
        own: &[],
    };

    fn parsers(line: &str) -> Parsers {
        let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        Parsers::of(&SERVE.parse(&words).unwrap().parsed)
    }

    #[test]
    fn known_parsers_are_found_and_others_are_said_to_be_missing() {
        assert_eq!(parsers(""), Parsers::default());
        let known = parsers("--reasoning-parser deepseek-r1 --tool-call-parser qwen25");
        assert_eq!(known.reasoning, Some(ReasoningFormat::DeepSeekR1));
        assert_eq!(known.tools, Some(ToolFormat::Hermes));
        let unknown = parsers("--reasoning-parser dots --tool-call-parser spark25");
        assert_eq!(
            (unknown.reasoning, unknown.tools, unknown.notices.len()),
            (None, None, 2)
        );
        assert!(
            unknown.notices[0].reason.contains("dots"),
            "{:?}",
            unknown.notices
        );
    }
}
