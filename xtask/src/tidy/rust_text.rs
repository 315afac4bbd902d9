//! Rust source with comments and texts blanked out, so that rules about code see code alone.

/// The source with comments, strings and characters replaced by spaces; line breaks stay.
pub(crate) fn code_only(source: &str) -> String {
    let mut out = String::with_capacity(source.len());
    let mut rest = source;
    while let Some(first) = rest.chars().next() {
        let Some(length) = non_code(rest, out.chars().next_back()) else {
            out.push(first);
            rest = &rest[first.len_utf8()..];
            continue;
        };
        let (part, after) = rest.split_at(length);
        out.extend(part.chars().map(|c| if c == '\n' { c } else { ' ' }));
        rest = after;
    }
    out
}

/// The words of code that can be names, with their lines counted from one.
pub(crate) fn identifiers(code: &str) -> impl Iterator<Item = (usize, &str)> {
    code.lines().enumerate().flat_map(|(number, line)| {
        line.split(|c: char| !(c.is_alphanumeric() || c == '_'))
            .filter(|word| word.starts_with(|c: char| c.is_alphabetic() || c == '_'))
            .map(move |word| (number + 1, word))
    })
}

/// The length of the comment or literal that starts here, if one does.
fn non_code(rest: &str, before: Option<char>) -> Option<usize> {
    if rest.starts_with("//") {
        return Some(rest.find('\n').unwrap_or(rest.len()));
    }
    if rest.starts_with("/*") {
        return Some(block_comment(rest));
    }
    if rest.starts_with('"') {
        return Some(quoted(rest, '"'));
    }
    let in_word = before.is_some_and(|c| c.is_alphanumeric() || c == '_');
    if !in_word {
        for prefix in ["r", "br", "cr"] {
            if let Some(length) = rest.strip_prefix(prefix).and_then(raw_string) {
                return Some(prefix.len() + length);
            }
        }
    }
    let mut letters = rest.chars();
    if letters.next() == Some('\'') {
        let (second, third) = (letters.next(), letters.next());
        if second == Some('\\') || third == Some('\'') {
            return Some(quoted(rest, '\''));
        }
    }
    None
}

fn block_comment(rest: &str) -> usize {
    let (mut depth, mut at) = (0, 0);
    while at < rest.len() {
        if rest[at..].starts_with("/*") {
            depth += 1;
            at += 2;
        } else if rest[at..].starts_with("*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += rest[at..].chars().next().map_or(1, char::len_utf8);
        }
    }
    rest.len()
}

fn quoted(rest: &str, quote: char) -> usize {
    let mut escaped = false;
    for (at, c) in rest.char_indices().skip(1) {
        if escaped {
            escaped = false;
        } else if c == '\\' {
            escaped = true;
        } else if c == quote {
            return at + 1;
        }
    }
    rest.len()
}

/// The length of `#"…"#` with any number of hashes.
fn raw_string(rest: &str) -> Option<usize> {
    let hashes = rest.len() - rest.trim_start_matches('#').len();
    let body = rest[hashes..].strip_prefix('"')?;
    let end = format!("\"{}", "#".repeat(hashes));
    let length = body.find(&end).map_or(body.len(), |at| at + end.len());
    Some(hashes + 1 + length)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_texts_are_blanked_and_code_stays() {
        let cases = [
            ("a // b\nc", "a     \nc"),
            ("a /* b /* c */ d */ e", "a                   e"),
            (r#"f("x \" y", z)"#, "f(        , z)"),
            (r##"r#"a " b"# + c"##, "           + c"),
            ("br\"x\" y", "      y"),
            ("'a' 'b: &'c", "    'b: &'c"),
            (r"'\'' x", "     x"),
            ("for\"x\"", "for   "),
        ];
        for (source, expected) in cases {
            assert_eq!(code_only(source), expected, "{source}");
        }
    }

    #[test]
    fn identifiers_come_with_their_lines() {
        let found: Vec<_> = identifiers("let a_b = 1u8;\n  C::d(2)").collect();
        assert_eq!(found, [(1, "let"), (1, "a_b"), (2, "C"), (2, "d")]);
    }
}
