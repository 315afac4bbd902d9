use serde::Serialize;
use serde_json::{Value, json};

use crate::json::{FromJson, Json, Path, ReadError};

/// One prompt of a completion.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Prompt {
    /// As text.
    Text(String),
    /// As tokens.
    Tokens(Vec<i64>),
}

impl Prompt {
    /// Whether there is nothing to continue.
    pub fn is_empty(&self) -> bool {
        match self {
            Self::Text(text) => text.is_empty(),
            Self::Tokens(tokens) => tokens.is_empty(),
        }
    }
}

impl FromJson for Prompt {
    fn one() -> String {
        "a string or a list of integers".to_owned()
    }

    fn many() -> String {
        "strings or lists of integers".to_owned()
    }

    fn fits(json: &Json) -> bool {
        String::fits(json) || Vec::<i64>::fits(json)
    }

    fn relaxed(json: Json) -> Json {
        Vec::<i64>::relaxed(json)
    }

    fn from_json(json: Json, path: &Path<'_>) -> Result<Self, ReadError> {
        match json {
            Json::String(text) => Ok(Self::Text(text)),
            list @ (Json::Ints(_) | Json::List(_)) => Vec::from_json(list, path).map(Self::Tokens),
            other => Err(ReadError::mismatch(Self::one(), &other, path)),
        }
    }

    fn schema() -> Value {
        json!({"anyOf": [String::schema(), Vec::<i64>::schema()]})
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::{OneOrMany, read};

    fn check(text: &str) -> String {
        match read::<OneOrMany<Prompt>>(text.as_bytes()) {
            Ok(prompts) => format!("{prompts:?}"),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn a_prompt_is_text_or_tokens_and_so_is_each_of_a_list() {
        let cases = [
            (r#""a""#, r#"One(Text("a"))"#),
            (r"[1, 2]", "One(Tokens([1, 2]))"),
            (r#"["a", "b"]"#, r#"Many([Text("a"), Text("b")])"#),
            (r"[[1], [2, 3]]", "Many([Tokens([1]), Tokens([2, 3])])"),
            (r#"["a", [1]]"#, r#"Many([Text("a"), Tokens([1])])"#),
            ("[]", "One(Tokens([]))"),
            (r#"["1"]"#, r#"Many([Text("1")])"#),
            (r#"["1", 2]"#, "One(Tokens([1, 2]))"),
            (r#"[1, "2", true]"#, "One(Tokens([1, 2, 1]))"),
            (r#"[["1"], [2.0]]"#, "Many([Tokens([1]), Tokens([2])])"),
            (r#"[1, "a"]"#, "[1]: expected an integer, got a string"),
            (
                r#"["a", 1]"#,
                "[1]: expected a string or a list of integers, got an integer",
            ),
            (
                "true",
                "expected a string or a list of integers or a list of strings or lists of \
                 integers, got a boolean",
            ),
        ];
        for (text, expected) in cases {
            assert_eq!(check(text), expected, "{text}");
        }
    }
}
