//! Flags from a file: the flat part of YAML that `--config` files use.

/// Turns `key: value` lines into the words of a command line. Lists are `[a, b]` or `- a` lines;
/// `true` gives a bare flag, `false` and `null` give nothing.
pub(crate) fn words(text: &str) -> Result<Vec<String>, BadLine> {
    let mut words = Vec::new();
    let mut open: Option<String> = None;
    for (number, line) in text.lines().enumerate() {
        let bad = |reason| BadLine {
            number: number + 1,
            line: line.to_owned(),
            reason,
        };
        let content = uncommented(line);
        if content.trim().is_empty() || content == "---" {
            continue;
        }
        if let Some(item) = content.trim_start().strip_prefix("- ") {
            let key = open
                .take()
                .ok_or_else(|| bad("a list item without a key"))?;
            if words.last() != Some(&key) && !in_list(&words, &key) {
                words.push(key.clone());
            }
            words.push(scalar(item));
            open = Some(key);
            continue;
        }
        if content.starts_with([' ', '\t']) {
            return Err(bad("nested values are not flags"));
        }
        let (key, value) = content
            .split_once(':')
            .ok_or_else(|| bad("expected key: value"))?;
        let flag = format!("--{}", key.trim().replace('_', "-"));
        open = None;
        match value.trim() {
            "" => open = Some(flag),
            "true" | "True" | "yes" | "on" => words.push(flag),
            "false" | "False" | "no" | "off" | "null" | "~" | "None" => {}
            list if list.starts_with('[') => {
                let inner = list
                    .strip_prefix('[')
                    .and_then(|list| list.strip_suffix(']'));
                let inner = inner.ok_or_else(|| bad("a list must end on its line"))?;
                words.push(flag);
                words.extend(
                    inner
                        .split(',')
                        .filter(|item| !item.trim().is_empty())
                        .map(scalar),
                );
            }
            value => words.push(format!("{flag}={}", scalar(value))),
        }
    }
    Ok(words)
}

/// A line of the file that is not a flag.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {number}: {reason}: {line}")]
pub(crate) struct BadLine {
    number: usize,
    line: String,
    reason: &'static str,
}

/// Whether the words end with this flag and items of its list.
fn in_list(words: &[String], key: &str) -> bool {
    words
        .iter()
        .rfind(|word| word.starts_with("--"))
        .is_some_and(|last| last == key)
}

/// The line without its comment: a `#` at the start or after a space, outside quotes.
fn uncommented(line: &str) -> &str {
    let mut quote = None;
    let mut before = ' ';
    for (place, letter) in line.char_indices() {
        match (quote, letter) {
            (Some(open), _) if letter == open => quote = None,
            (None, '"' | '\'') => quote = Some(letter),
            (None, '#') if before.is_whitespace() => return line[..place].trim_end(),
            _ => {}
        }
        before = letter;
    }
    line.trim_end()
}

fn scalar(text: &str) -> String {
    let text = text.trim();
    for quote in ['"', '\''] {
        let inner = text
            .strip_prefix(quote)
            .and_then(|text| text.strip_suffix(quote));
        if let Some(inner) = inner {
            return inner.to_owned();
        }
    }
    text.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_become_flags() {
        let text = "# server\n---\nmodel-path: a/b  # the model\nport: 30001\nenable_metrics: true\n\
                    disable-radix-cache: false\napi-key: \"#1: x\"\ncuda-graph-bs: [1, 2, 4]\n\
                    lora-paths:\n  - a=b\n  - 'c'\nchat-template: '{# x #}'\nempty:\n";
        assert_eq!(
            words(text).unwrap(),
            [
                "--model-path=a/b",
                "--port=30001",
                "--enable-metrics",
                "--api-key=#1: x",
                "--cuda-graph-bs",
                "1",
                "2",
                "4",
                "--lora-paths",
                "a=b",
                "c",
                "--chat-template={# x #}"
            ]
        );
    }

    #[test]
    fn what_is_not_flat_is_refused_with_its_line() {
        for (text, expected) in [
            (
                "a: 1\n  b: 2",
                "line 2: nested values are not flags:   b: 2",
            ),
            ("- a", "line 1: a list item without a key: - a"),
            ("nonsense", "line 1: expected key: value: nonsense"),
            ("a: [1", "line 1: a list must end on its line: a: [1"),
        ] {
            assert_eq!(words(text).unwrap_err().to_string(), expected);
        }
    }
}
