/// What stands before the data of an event.
pub const PREFIX: &[u8] = b"data: ";

/// What ends an event.
pub const SUFFIX: &[u8] = b"\n\n";

/// The event that ends a stream, ready to be written.
pub const DONE_EVENT: &[u8] = b"data: [DONE]\n\n";

/// Appends one event with `data`; every line of it becomes a `data:` line.
pub fn write_event(out: &mut Vec<u8>, data: &str) {
    for line in data.split('\n') {
        out.extend_from_slice(PREFIX);
        out.extend_from_slice(line.strip_suffix('\r').unwrap_or(line).as_bytes());
        out.push(b'\n');
    }
    out.push(b'\n');
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(data: &str) -> String {
        let mut out = Vec::new();
        write_event(&mut out, data);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn an_event_is_a_data_line_and_an_empty_one() {
        assert_eq!(written("{\"a\":1}"), "data: {\"a\":1}\n\n");
        assert_eq!(written("[DONE]").as_bytes(), DONE_EVENT);
        assert_eq!(written(""), "data: \n\n");
    }

    #[test]
    fn lines_in_the_data_do_not_end_the_event() {
        assert_eq!(
            written("a\n\nb\r\nc"),
            "data: a\ndata: \ndata: b\ndata: c\n\n"
        );
    }
}
