//! A glance at one event: is there text, and how many tokens so far.
//!
//! Native events repeat the whole text, so parsing each costs the square of the answer's length.
//! This walks the JSON structure without decoding it, in whatever order and spacing a server
//! writes its keys, and leaves decoding to the last event.

mod open_ai;
mod shape;
mod walk;

pub(super) use open_ai::{Spoken, spoken_again, spoken_in_chat, spoken_in_completion};
pub(super) use shape::Shape;
use shape::{Part, Parts};
use walk::Walk;

/// What a native event says, as far as every event must be looked at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Glance {
    /// Whether there is a non-empty `text`.
    pub(super) has_text: bool,
    /// `meta_info.completion_tokens`.
    pub(super) completion_tokens: Option<u32>,
    /// Whether there is an `error` that is not null.
    pub(super) has_error: bool,
}

/// Glances at an event; `None` when it is not a JSON object of the expected shape.
///
/// `None` is not a verdict: the caller parses the event in full and lets that decide.
pub(super) fn glance(event: &[u8], shape: &mut Shape) -> Option<Glance> {
    let mut walk = Walk { rest: event };
    let mut glance = Glance::default();
    let mut parts = Parts::default();
    walk.object(|key, walk| {
        match key {
            b"text" => {
                let text = parts.note(Part::Text, walk, Walk::string)?;
                glance.has_text = !text.is_empty();
            }
            b"meta_info" => walk.object(|key, walk| {
                if key == b"completion_tokens" {
                    let tokens = parts.note(Part::Count, walk, Walk::integer)?;
                    glance.completion_tokens = Some(tokens);
                    Some(())
                } else {
                    walk.skip()
                }
            })?,
            b"output_ids" => parts.note(Part::Other, walk, Walk::skip)?,
            b"error" => {
                glance.has_error = !walk.value()?.starts_with(b"null");
            }
            _ => walk.skip()?,
        }
        Some(())
    })?;
    walk.blanks();
    if !walk.rest.is_empty() {
        return None;
    }
    if !glance.has_error {
        shape.learn(event, &parts);
    }
    Some(glance)
}

/// Glances at a line that starts with an event of the shape of an earlier one without an error:
/// what it says, and its length.
pub(super) fn glance_again(line: &[u8], shape: &Shape) -> Option<(Glance, usize)> {
    let mut glance = Glance::default();
    let length = shape.fit(line, |part, walk| {
        match part {
            Part::Text => glance.has_text = !walk.line_string()?.is_empty(),
            Part::Count => glance.completion_tokens = Some(walk.integer()?),
            Part::Other => walk.skip()?,
        }
        Some(())
    })?;
    Some((glance, length))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(event: &str) -> Option<Glance> {
        let value: serde_json::Value = serde_json::from_str(event).ok()?;
        Some(Glance {
            has_text: value["text"].as_str().is_some_and(|text| !text.is_empty()),
            completion_tokens: value["meta_info"]["completion_tokens"]
                .as_u64()
                .map(|n| n as u32),
            has_error: !value["error"].is_null(),
        })
    }

    #[test]
    fn a_glance_sees_what_a_full_parse_sees() {
        for event in [
            r#"{"text":"hi","meta_info":{"id":"x","completion_tokens":3,"finish_reason":null}}"#,
            r#"{"meta_info":{"completion_tokens":12,"e2e":0.5},"text":"a\"b\\","index":0}"#,
            r#" { "text" : "" , "meta_info" : { "a":[1,{"b":"}]"}],"completion_tokens" : 7 } } "#,
            r#"{"error":{"message":"no text here"}}"#,
            r#"{"error":null,"text":"completion_tokens\":99","meta_info":{"completion_tokens":1}}"#,
            r#"{"output_ids":[1,2,3],"text":"\u00e9\n","meta_info":{"x":{"completion_tokens":5}}}"#,
            r#"{"text":"é😀","meta_info":{"completion_tokens":2,"w":[[],{},"]"],"f":-1.5e3}}"#,
            "{}",
            r#"{"text":"a","meta_info":{}}"#,
        ] {
            let mut shape = Shape::default();
            let seen = glance(event.as_bytes(), &mut shape);
            assert_eq!(seen, parsed(event), "{event}");
            if seen.is_some_and(|seen| !seen.has_error) && event.starts_with("{\"") {
                let again = glance_again(format!("{event}\n").as_bytes(), &shape);
                assert_eq!(again, seen.map(|seen| (seen, event.len())), "{event}");
            }
        }
    }

    #[test]
    fn what_is_out_of_shape_is_left_to_the_full_parse() {
        for event in [
            "",
            "[]",
            "null",
            "{",
            r#"{"text""#,
            r#"{"text":"a"#,
            r#"{"text":null}"#,
            r#"{"text":"a"} x"#,
            r#"{"t\u0065xt":"a"}"#,
            r#"{"text":"a\"#,
            r#"{"meta_info":{"completion_tokens":1.5}}"#,
            r#"{"meta_info":{"completion_tokens":-1}}"#,
            r#"{"meta_info":null}"#,
            r#"{"a":]}"#,
            r#"{"a":}"#,
        ] {
            assert_eq!(
                glance(event.as_bytes(), &mut Shape::default()),
                None,
                "{event}"
            );
        }
    }

    #[test]
    fn an_event_is_seen_alike_whatever_came_before_it() {
        let events = [
            r#"{"text":"a","output_ids":[1],"meta_info":{"completion_tokens":1,"x":null}}"#,
            r#"{"text":"a b","output_ids":[1,22],"meta_info":{"completion_tokens":12,"x":null}}"#,
            r#"{"text":"a \" \\","output_ids":[],"meta_info":{"completion_tokens":3,"x":null}}"#,
            r#"{"text":"","output_ids":[[1],"]"],"meta_info":{"completion_tokens":3,"x":null}}"#,
            r#"{"text":"a","output_ids":[1],"meta_info":{"completion_tokens":1,"x":4}}"#,
            r#"{"text":"a","output_ids":[1],"meta_info":{"completion_tokens":1.5,"x":4}}"#,
            r#"{"text":null,"output_ids":[1],"meta_info":{"completion_tokens":1,"x":null}}"#,
            r#"{"text":"a","error":"b","output_ids":[1],"meta_info":{"completion_tokens":1,"x":null}}"#,
            r#"{"text":"a","text":"","output_ids":[1],"meta_info":{"completion_tokens":1,"x":null}}"#,
            r#"{"text":"a","output_ids":[1],"meta_info":{"completion_tokens":1,"x":null}} "#,
            r#"{"text":"a","output_ids":[1],"meta_info":{"completion_tokens":1,"x":null}}}"#,
            r#"{"text":"a","output_ids":[1],"meta_info":{"completion_tokens":1,"x":null}"#,
            r#"{"text":"a","output_ids":[1,"meta_info":{"completion_tokens":1,"x":null}}"#,
            "{\"text\":\"a\n\",\"output_ids\":[1],\"meta_info\":{\"completion_tokens\":1,\"x\":null}}",
            "{\"text\":\"a\\\n\",\"output_ids\":[1],\"meta_info\":{\"completion_tokens\":1,\"x\":null}}",
            "{\"text\":\n\"a\",\"output_ids\":[1],\"meta_info\":{\"completion_tokens\":1,\"x\":null}}",
            "{\"text\":\"a\",\"output_ids\":[1\n],\"meta_info\":{\"completion_tokens\":1,\"x\":null}}",
            "{\"text\":\"a\",\"output_ids\":[1],\"meta_info\":{\"completion_tokens\":\n1,\"x\":null}}",
            "{}",
            "",
        ];
        for before in events {
            for event in events {
                let alone = glance(event.as_bytes(), &mut Shape::default());
                let mut shape = Shape::default();
                glance(before.as_bytes(), &mut shape);
                for end in ["\n", "\n\n", "\r\n", ""] {
                    let line = format!("{event}{end}");
                    let after = glance_again(line.as_bytes(), &shape);
                    let Some((seen, length)) = after else {
                        continue;
                    };
                    // A line may start with an event and go on: its length tells.
                    if length == event.len() {
                        assert_eq!(Some(seen), alone, "{event} after {before}");
                    }
                    assert!(!line[..length].contains('\n'), "{event} after {before}");
                }
            }
        }
    }
}
