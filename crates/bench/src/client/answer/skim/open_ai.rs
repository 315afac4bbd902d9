//! A glance at one event of the OpenAI kind: most of them carry a piece of text and nothing else.

use super::shape::{Part, Parts, Shape};
use super::walk::Walk;

/// A piece of text as the event writes it, and whether it is the last one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::client::answer) struct Spoken<'a> {
    /// The text between its quotes, escapes and all; empty when there is none.
    pub(in crate::client::answer) raw: &'a [u8],
    /// Whether there is a reason to end.
    pub(in crate::client::answer) ended: bool,
}

/// An event with one choice while it is walked over.
#[derive(Default)]
struct Found<'a> {
    choice: Spoken<'a>,
    parts: Parts,
}

impl<'a> Found<'a> {
    fn text(&mut self, walk: &mut Walk<'a>) -> Option<()> {
        self.choice.raw = self.parts.note(Part::Text, walk, Walk::text)?;
        Some(())
    }
}

/// The text of a completion event; `None` when the event says more than that and must be parsed.
pub(in crate::client::answer) fn spoken_in_completion<'a>(
    event: &'a [u8],
    shape: &mut Shape,
) -> Option<Spoken<'a>> {
    spoken(event, shape, |key, walk, found| match key {
        b"text" => found.text(walk),
        _ => walk.skip(),
    })
}

/// The same of a chat event.
pub(in crate::client::answer) fn spoken_in_chat<'a>(
    event: &'a [u8],
    shape: &mut Shape,
) -> Option<Spoken<'a>> {
    spoken(event, shape, |key, walk, found| match key {
        b"delta" => walk.object(|key, walk| match key {
            b"content" => found.text(walk),
            b"reasoning_content" | b"reasoning" => walk.nothing(),
            b"tool_calls" => matches!(walk.value()?, b"null" | b"[]").then_some(()),
            _ => walk.skip(),
        }),
        _ => walk.skip(),
    })
}

/// The text of a line that starts with an event of the shape of an earlier one with text, and the
/// event's length.
pub(in crate::client::answer) fn spoken_again<'a>(
    line: &'a [u8],
    shape: &Shape,
) -> Option<(Spoken<'a>, usize)> {
    let mut spoken = Spoken::default();
    let length = shape.fit(line, |_, walk| {
        spoken.raw = walk.text()?;
        Some(())
    })?;
    Some((spoken, length))
}

/// Walks over an event; `visit` is called at its choice's values but the reason to end.
fn spoken<'a>(
    event: &'a [u8],
    shape: &mut Shape,
    visit: impl Fn(&[u8], &mut Walk<'a>, &mut Found<'a>) -> Option<()>,
) -> Option<Spoken<'a>> {
    let found = walked(event, visit)?;
    if found.parts.is_one() && !found.choice.ended {
        shape.learn(event, &found.parts);
    }
    Some(found.choice)
}

fn walked<'a>(
    event: &'a [u8],
    visit: impl Fn(&[u8], &mut Walk<'a>, &mut Found<'a>) -> Option<()>,
) -> Option<Found<'a>> {
    let mut walk = Walk { rest: event };
    let mut found = None;
    walk.object(|key, walk| match key {
        b"choices" => {
            let found = found.insert(Found::default());
            walk.byte(b'[')?;
            walk.object(|key, walk| {
                if key == b"finish_reason" {
                    found.choice.ended = walk.value()? != b"null";
                    return Some(());
                }
                visit(key, walk, found)
            })?;
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
                spoken_in_completion(event.as_bytes(), &mut Shape::default()),
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
            assert_eq!(
                spoken_in_chat(event.as_bytes(), &mut Shape::default()),
                Some(expected),
                "{event}"
            );
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
            assert_eq!(
                spoken_in_completion(event.as_bytes(), &mut Shape::default()),
                None,
                "{event}"
            );
        }
        let thinking = r#"{"choices":[{"delta":{"content":null,"reasoning":"hm"}}]}"#;
        assert_eq!(
            spoken_in_chat(thinking.as_bytes(), &mut Shape::default()),
            None
        );
        let calling = r#"{"choices":[{"delta":{"content":null,"tool_calls":[{"index":0}]}}]}"#;
        assert_eq!(
            spoken_in_chat(calling.as_bytes(), &mut Shape::default()),
            None
        );
        let null = r#"{"choices":[{"delta":null}]}"#;
        assert_eq!(spoken_in_chat(null.as_bytes(), &mut Shape::default()), None);
    }

    #[test]
    fn an_event_is_seen_alike_whatever_came_before_it() {
        let events = [
            r#"{"id":"a","choices":[{"text":" the","finish_reason":null}],"usage":null}"#,
            r#"{"id":"a","choices":[{"text":" a\"\\","finish_reason":null}],"usage":null}"#,
            r#"{"id":"a","choices":[{"text":"","finish_reason":null}],"usage":null}"#,
            r#"{"id":"a","choices":[{"text":null,"finish_reason":null}],"usage":null}"#,
            r#"{"id":"a","choices":[{"text":5,"finish_reason":null}],"usage":null}"#,
            r#"{"id":"a","choices":[{"text":"x","finish_reason":"stop"}],"usage":null}"#,
            r#"{"id":"a","choices":[{"text":"x","text":"y","finish_reason":null}],"usage":null}"#,
            r#"{"id":"a","choices":[{"text":"x"}],"choices":[{"finish_reason":null}],"usage":null}"#,
            r#"{"id":"a","choices":[{"text":"x","finish_reason":null}],"usage":{}}"#,
            r#"{"id":"b","choices":[{"text":"x","finish_reason":null}],"usage":null}"#,
            r#"{"id":"a","choices":[{"text":"x","finish_reason":null}],"usage":null"#,
            r#"{"id":"a","choices":[{"text":"x,"finish_reason":null}],"usage":null}"#,
            r#"{"choices":[{"delta":{"content":"hi"}}]}"#,
            r#"{"choices":[{"delta":{"content":"ho\n"}}]}"#,
            r#"{"choices":[{"delta":{}}]}"#,
            "{\"choices\":[{\"delta\":{\"content\":\"h\no\"}}]}",
            "{\"choices\":[{\"delta\":{\"content\":\n\"ho\"}}]}",
            "{\"choices\":[{\"delta\":{\"content\":\"h\\\no\"}}]}",
            "",
        ];
        for look in [spoken_in_completion, spoken_in_chat] {
            for (before, event) in events
                .iter()
                .flat_map(|one| events.map(|other| (*one, other)))
            {
                let alone = look(event.as_bytes(), &mut Shape::default());
                let mut shape = Shape::default();
                look(before.as_bytes(), &mut shape);
                let line = format!("{event}\n\n");
                let after = spoken_again(line.as_bytes(), &shape);
                let Some((seen, length)) = after else {
                    continue;
                };
                if length == event.len() {
                    assert_eq!(Some(seen), alone, "{event} after {before}");
                }
                assert!(!line[..length].contains('\n'), "{event} after {before}");
            }
        }
    }
}
