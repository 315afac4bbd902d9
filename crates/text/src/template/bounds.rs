//! What is refused before a template is parsed: the parser, the compiler and the drop of the syntax tree recurse
//! once per operator, and nothing in them counts.

use super::TemplateError;

/// The longest real templates have some 30 kB.
const MOST_BYTES: usize = 1 << 20;

/// Strings, names, numbers and signs in one tag. The longest tags of real templates have some hundreds.
const MOST_TOKENS: usize = 2_000;

/// Cases of conditions; each is nested in the one before it.
const MOST_CASES: usize = 1_000;

/// Refuses a source whose parsing could exhaust a stack of 2 MiB.
pub(super) fn check(source: &str) -> Result<(), TemplateError> {
    if source.len() > MOST_BYTES {
        return Err(TemplateError::TooLarge {
            length: source.len(),
            limit: MOST_BYTES,
        });
    }
    let mut scan = Scan {
        bytes: source.as_bytes(),
        at: 0,
    };
    let mut cases = 0;
    while let Some(opening) = scan.opening() {
        if opening == b'#' {
            scan.skip_comment();
            continue;
        }
        let start = scan.at;
        let tokens = scan.skip_tag();
        let (what, limit) = if tokens > MOST_TOKENS {
            ("tokens in one tag", MOST_TOKENS)
        } else {
            let tag = source[start..].trim_start_matches(['-', '+']).trim_start();
            cases += usize::from(opening == b'%' && tag.starts_with("elif"));
            if cases <= MOST_CASES {
                continue;
            }
            ("cases of conditions", MOST_CASES)
        };
        return Err(TemplateError::TooDeep {
            what: what.to_owned(),
            limit,
            line: source[..start].matches('\n').count() + 1,
        });
    }
    Ok(())
}

struct Scan<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Scan<'a> {
    /// What is still to be seen; an unfinished string ends behind the source.
    fn rest(&self) -> &'a [u8] {
        self.bytes.get(self.at..).unwrap_or_default()
    }

    /// Goes behind the next `{{`, `{%` or `{#` and says which it is.
    fn opening(&mut self) -> Option<u8> {
        let rest = self.rest();
        let found = rest
            .windows(2)
            .position(|pair| pair[0] == b'{' && matches!(pair[1], b'{' | b'%' | b'#'));
        let at = self.at + found?;
        self.at = at + 2;
        Some(self.bytes[at + 1])
    }

    fn skip_comment(&mut self) {
        let rest = self.rest();
        let end = rest.windows(2).position(|pair| pair == b"#}");
        self.at += end.map_or(rest.len(), |end| end + 2);
    }

    /// Goes behind the end of a tag; says how many tokens it has, or one more than the limit.
    fn skip_tag(&mut self) -> usize {
        let (mut tokens, mut open) = (0_usize, 0_usize);
        while let Some(&byte) = self.bytes.get(self.at) {
            if tokens > MOST_TOKENS {
                break;
            }
            let next = self.bytes.get(self.at + 1);
            if open == 0 && matches!(byte, b'}' | b'%') && next == Some(&b'}') {
                self.at += 2;
                break;
            }
            match byte {
                b'"' | b'\'' => self.skip_string(byte),
                b'(' | b'[' | b'{' => open += 1,
                b')' | b']' | b'}' => open = open.saturating_sub(1),
                _ => {}
            }
            self.at += 1;
            if byte.is_ascii_whitespace() {
                continue;
            }
            tokens += 1;
            if is_word(byte) {
                self.at += self
                    .rest()
                    .iter()
                    .take_while(|byte| is_word(**byte))
                    .count();
            }
        }
        tokens
    }

    /// Goes to the quote that ends a string.
    fn skip_string(&mut self, quote: u8) {
        self.at += 1;
        while let Some(&byte) = self.bytes.get(self.at) {
            match byte {
                b'\\' => self.at += 2,
                _ if byte == quote => return,
                _ => self.at += 1,
            }
        }
    }
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || !byte.is_ascii()
}

#[cfg(test)]
mod tests {
    use super::check;

    #[test]
    fn tags_are_measured_by_their_tokens_and_not_by_their_strings() {
        let refused = |source: &str| check(source).err().map(|error| error.to_string());
        let tokens = "the chat template has more than 2000 tokens in one tag (line 2)";
        let table = [
            (
                format!("\n{{{{ {} 1 }}}}", "not ".repeat(3000)),
                Some(tokens),
            ),
            (format!("\n{{% if a{} %}}", "+1".repeat(3000)), Some(tokens)),
            (format!("\n{{{{ a{} }}}}", ".b".repeat(3000)), Some(tokens)),
            (
                format!("\n{{{{ {{}}}}{} }}}}", "-1".repeat(3000)),
                Some(tokens),
            ),
            (
                format!("\n{{{{ [[{} }}}} {}", "[".repeat(9), "~1".repeat(3000)),
                Some(tokens),
            ),
            (format!("{{{{ '{}' }}}}", "not ".repeat(3000)), None),
            (format!("{{{{ '\\'{}' }}}}", "not ".repeat(3000)), None),
            (format!("{{# {} #}}", "not ".repeat(3000)), None),
            ("not ".repeat(3000), None),
            ("{{ 'unfinished \\\\".to_owned(), None),
            ("{# {{".to_owned(), None),
            ("{{ a + b }}{% if c %}d{% endif %}".repeat(3000), None),
            (
                format!("{{% if a %}}{}{{% endif %}}", "{%- elif b %}".repeat(1001)),
                Some("the chat template has more than 1000 cases of conditions (line 1)"),
            ),
            (
                " ".repeat((1 << 20) + 1),
                Some("the chat template has 1048577 bytes, the limit is 1048576"),
            ),
        ];
        for (source, expected) in table {
            assert_eq!(refused(&source).as_deref(), expected, "{source:.40}");
        }
    }

    #[test]
    fn what_is_within_the_bounds_parses_on_a_small_stack() {
        let sources = [
            format!("{{{{ {} 1 }}}}", "not ".repeat(1990)),
            format!("{{{{ 1{} }}}}", "|string".repeat(990)),
            format!("{{{{ a{} }}}}", ".b".repeat(990)),
            format!("{{{{ 1{} }}}}", "+1".repeat(990)),
            format!("{{{{ 1{} }}}}", "~1".repeat(990)),
            format!("{{{{ a{} }}}}", " if a else a".repeat(490)),
            format!("{{% if a %}}{}{{% endif %}}", "{% elif b %}".repeat(999)),
        ];
        let small = std::thread::Builder::new().stack_size(2 << 20);
        let parse = move || {
            for source in sources {
                let compiled = crate::Template::compile(&source, &crate::SpecialTokens::default());
                drop(compiled);
            }
        };
        small.spawn(parse).unwrap().join().unwrap();
    }
}
