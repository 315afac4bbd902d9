//! A glance at one event of the OpenAI kind: most of them carry a piece of text and nothing else.

use super::walk::Walk;

/// A piece of text as the event writes it, and whether it is the last one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::client::answer) struct Spoken<'a> {
    /// The text between its quotes, escapes and all; empty when there is none.
    pub(in crate::client::answer) raw: &'a [u8],
    /// Whether there is a reason to end.
    pub(in crate::client::answer) ended: bool,
}

/// The text of a completion event; `None` when the event says more than that and must be parsed.
pub(in crate::client::answer) fn spoken_in_completion(event: &[u8]) -> Option<Spoken<'_>> {
    spoken(event, |key, walk, found| match key {
        b"text" => {
            found.raw = walk.text()?;
            Some(())
        }
        _ => walk.skip(),
    })
}

/// The same of a chat event.
pub(in crate::client::answer) fn spoken_in_chat(event: &[u8]) -> Option<Spoken<'_>> {
    spoken(event, |key, walk, found| match key {
        b"delta" => walk.object(|key, walk| match key {
            b"content" => {
                found.raw = walk.text()?;
                Some(())
            }
            b"reasoning_content" | b"reasoning" => walk.nothing(),
            _ => walk.skip(),
        }),
        _ => walk.skip(),
    })
}

/// Walks an event with one choice; `visit` is called at the choice's values but its reason to end.
fn spoken<'a>(
    event: &'a [u8],
    visit: impl Fn(&[u8], &mut Walk<'a>, &mut Spoken<'a>) -> Option<()>,
) -> Option<Spoken<'a>> {
    let mut walk = Walk { rest: event };
    let mut found = None;
    walk.object(|key, walk| match key {
        b"choices" => {
            let mut choice = Spoken::default();
            walk.byte(b'[')?;
            walk.object(|key, walk| {
                if key == b"finish_reason" {
                    choice.ended = walk.value()? != b"null";
                    return Some(());
                }
                visit(key, walk, &mut choice)
            })?;
            found = Some(choice);
            walk.byte(b']')
        }
        b"usage" | b"error" | b"sglext" => (walk.value()? == b"null").then_some(()),
        _ => walk.skip(),
    })?;
    walk.blanks();
    found.filter(|_| walk.rest.is_empty())
}

impl<'a> Walk<'a> {
    /// Passes over a string or null: its raw content.
    fn text(&mut self) -> Option<&'a [u8]> {
        self.blanks();
        if self.rest.first() == Some(&b'"') {
            return self.string();
        }
        (self.value()? == b"null").then_some(&[])
    }

    /// Passes over null or an empty string, and nothing else.
    fn nothing(&mut self) -> Option<()> {
        self.text()?.is_empty().then_some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(text: &str, ended: bool) -> Spoken<'_> {
        Spoken {
            raw: text.as_bytes(),
            ended,
        }
    }

    #[test]
    fn plain_events_are_seen_through() {
        for (event, expected) in [
            (
                r#"{"id":"a","choices":[{"index":0,"text":" the","logprobs":null,"finish_reason":null}],"usage":null}"#,
                raw(" the", false),
            ),
            (
                r#" { "choices" : [ { "finish_reason" : "length" , "text" : "a\n\"b" } ] } "#,
                raw(r#"a\n\"b"#, true),
            ),
            (r#"{"choices":[{"text":null}]}"#, raw("", false)),
            (
                r#"{"choices":[{"logprobs":{"text":["x"]},"text":"é"}]}"#,
                raw("é", false),
            ),
        ] {
            assert_eq!(
                spoken_in_completion(event.as_bytes()),
                Some(expected),
                "{event}"
            );
        }
        for (event, expected) in [
            (
                r#"{"choices":[{"index":0,"delta":{"role":"assistant","content":"hi"},"finish_reason":null}]}"#,
                raw("hi", false),
            ),
            (
                r#"{"choices":[{"delta":{"content":"x","reasoning_content":null,"tool_calls":[]}}]}"#,
                raw("x", false),
            ),
            (
                r#"{"choices":[{"delta":{},"finish_reason":"stop"}]}"#,
                raw("", true),
            ),
        ] {
            assert_eq!(spoken_in_chat(event.as_bytes()), Some(expected), "{event}");
        }
    }

    #[test]
    fn events_that_say_more_are_left_to_the_full_parse() {
        for event in [
            "",
            "{}",
            r#"{"choices":[]}"#,
            r#"{"choices":[{"text":"a"},{"text":"b"}]}"#,
            r#"{"choices":[{"text":"a"}],"usage":{"completion_tokens":1}}"#,
            r#"{"choices":[{"text":"a"}],"error":{"message":"no"}}"#,
            r#"{"choices":[{"text":3}]}"#,
            r#"{"choices":[{"text":"a"}]} x"#,
            r#"{"choices":[{"text":"a"#,
        ] {
            assert_eq!(spoken_in_completion(event.as_bytes()), None, "{event}");
        }
        let thinking = r#"{"choices":[{"delta":{"content":null,"reasoning":"hm"}}]}"#;
        assert_eq!(spoken_in_chat(thinking.as_bytes()), None);
        let null = r#"{"choices":[{"delta":null}]}"#;
        assert_eq!(spoken_in_chat(null.as_bytes()), None);
    }
}
