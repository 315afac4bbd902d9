//! Python's text methods where they differ from the template engine's, or are missing there.

use minijinja::value::{ValueKind, from_args};
use minijinja::{Error, ErrorKind, State, Value};
use minijinja_contrib::pycompat;

/// Methods on values that the engine itself does not know.
pub(super) fn method(
    state: &mut State<'_, '_>,
    value: &Value,
    name: &str,
    args: &[Value],
) -> Result<Value, Error> {
    if let (ValueKind::String, Some(text)) = (value.kind(), value.as_str())
        && let Some(result) = text_method(text, name, args)
    {
        return result;
    }
    pycompat::unknown_method_callback(state, value, name, args)
}

fn text_method(text: &str, name: &str, args: &[Value]) -> Option<Result<Value, Error>> {
    let affix = || from_args::<(&str,)>(args).map(|(affix,)| affix);
    Some(match name {
        "strip" => strip(text, args, true, true),
        "lstrip" => strip(text, args, true, false),
        "rstrip" => strip(text, args, false, true),
        "removeprefix" => affix().map(|affix| text.strip_prefix(affix).unwrap_or(text).into()),
        "removesuffix" => affix().map(|affix| text.strip_suffix(affix).unwrap_or(text).into()),
        "partition" => affix().and_then(|separator| partition(text, separator, false)),
        "rpartition" => affix().and_then(|separator| partition(text, separator, true)),
        "splitlines" => split_lines(text, args),
        "rsplit" => right_split(text, args),
        "title" => from_args::<()>(args).map(|()| title(text).into()),
        _ => return None,
    })
}

/// What Python's `str.isspace` holds true of.
pub(super) fn is_space(character: char) -> bool {
    character.is_whitespace() || ('\u{1c}'..='\u{1f}').contains(&character)
}

fn strip(text: &str, args: &[Value], left: bool, right: bool) -> Result<Value, Error> {
    let (characters,): (Option<&str>,) = from_args(args)?;
    let goes = |character: char| match characters {
        Some(characters) => characters.contains(character),
        None => is_space(character),
    };
    let text = if left {
        text.trim_start_matches(goes)
    } else {
        text
    };
    Ok(Value::from(if right {
        text.trim_end_matches(goes)
    } else {
        text
    }))
}

/// Upper case for every letter that follows no letter, lower case for the others.
fn title(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut after_letter = false;
    for character in text.chars() {
        if after_letter {
            out.extend(character.to_lowercase());
        } else {
            out.extend(character.to_uppercase());
        }
        after_letter = character.is_lowercase() || character.is_uppercase();
    }
    out
}

fn partition(text: &str, separator: &str, last: bool) -> Result<Value, Error> {
    if separator.is_empty() {
        return Err(Error::new(ErrorKind::InvalidOperation, "empty separator"));
    }
    let found = if last {
        text.rsplit_once(separator)
    } else {
        text.split_once(separator)
    };
    let parts = match found {
        Some((before, after)) => [before, separator, after],
        None if last => ["", "", text],
        None => [text, "", ""],
    };
    Ok(parts.into_iter().map(Value::from).collect())
}

fn split_lines(text: &str, args: &[Value]) -> Result<Value, Error> {
    let (keep_ends,): (Option<bool>,) = from_args(args)?;
    let ends_line = |character: char| matches!(character, '\n'..='\r' | '\u{1c}'..='\u{1e}' | '\u{85}' | '\u{2028}' | '\u{2029}');
    let mut lines = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find(ends_line) {
        let end = rest[at..].chars().next().map_or(0, char::len_utf8);
        let end = if rest[at..].starts_with("\r\n") {
            2
        } else {
            end
        };
        let shown = if keep_ends == Some(true) {
            at + end
        } else {
            at
        };
        lines.push(Value::from(&rest[..shown]));
        rest = &rest[at + end..];
    }
    if !rest.is_empty() {
        lines.push(Value::from(rest));
    }
    Ok(Value::from(lines))
}

fn right_split(text: &str, args: &[Value]) -> Result<Value, Error> {
    let (separator, most): (Option<&str>, Option<i64>) = from_args(args)?;
    let pieces = most
        .and_then(|most| usize::try_from(most).ok())
        .map_or(usize::MAX, |most| most.saturating_add(1));
    let mut parts: Vec<&str> = match separator {
        Some("") => return Err(Error::new(ErrorKind::InvalidOperation, "empty separator")),
        Some(separator) => text.rsplitn(pieces, separator).collect(),
        None => text
            .trim_matches(is_space)
            .rsplitn(pieces, is_space)
            .filter(|part| !part.is_empty())
            .collect(),
    };
    parts.reverse();
    Ok(parts.into_iter().map(Value::from).collect())
}
