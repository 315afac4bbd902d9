//! The parsers of thinking and of tool calls that the arguments name.

use std::fmt::Debug;
use std::str::FromStr;

use flags::Parsed;
use text::{ReasoningFormat, ToolFormat};

/// The formats to look for in what a model says.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Parsers {
    /// How the model marks its thinking.
    pub(crate) reasoning: Option<ReasoningFormat>,
    /// How the model writes calls of functions.
    pub(crate) tools: Option<ToolFormat>,
}

impl Parsers {
    /// Reads `--reasoning-parser` and `--tool-call-parser`.
    pub(crate) fn of(parsed: &Parsed) -> Self {
        Self {
            reasoning: named(parsed, "reasoning-parser"),
            tools: named(parsed, "tool-call-parser"),
        }
    }
}

fn named<T>(parsed: &Parsed, flag: &str) -> Option<T>
where
    T: FromStr<Err: Debug>,
{
    let format = parsed.text(flag)?.parse();
    Some(format.expect("the table offers the names of the formats alone"))
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

    fn parse(line: &str) -> Result<Parsers, String> {
        let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        let args = SERVE.parse(&words).map_err(|error| error.to_string())?;
        Ok(Parsers::of(&args.parsed))
    }

    #[test]
    fn every_parser_that_help_offers_is_there() {
        assert_eq!(parse(""), Ok(Parsers::default()));
        for name in ReasoningFormat::NAMES {
            let parsers = parse(&format!("--reasoning-parser {name}")).unwrap();
            assert_eq!(parsers.reasoning, Some(name.parse().unwrap()), "{name}");
        }
        for name in ToolFormat::NAMES {
            let parsers = parse(&format!("--tool-call-parser {name}")).unwrap();
            assert_eq!(parsers.tools, Some(name.parse().unwrap()), "{name}");
        }
        let help = SERVE.help(false);
        let words = help.split_whitespace().collect::<Vec<_>>().join(" ");
        for names in [ReasoningFormat::NAMES, ToolFormat::NAMES] {
            let offered = format!("One of: {}.", names.join(", "));
            assert!(words.contains(&offered), "{offered}");
        }
    }

    #[test]
    fn a_parser_of_sglang_that_is_not_here_is_refused_with_those_that_are() {
        for (flag, name, served) in [
            ("--reasoning-parser", "beam", ReasoningFormat::NAMES),
            ("--tool-call-parser", "spark25", ToolFormat::NAMES),
        ] {
            let error = parse(&format!("{flag} {name}")).unwrap_err();
            let expected = format!(
                "argument {flag}: '{name}' is not served yet (choose from {})",
                served.join(", ")
            );
            assert_eq!(error, expected);
        }
        let error = parse("--tool-call-parser qwen24").unwrap_err();
        assert!(
            error.contains("invalid choice: 'qwen24'; did you mean 'qwen25'?"),
            "{error}"
        );
    }
}
