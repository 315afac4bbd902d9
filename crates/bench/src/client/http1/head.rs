//! Request heads out, response heads in.

use super::body::BodyFraming;

/// A head longer than this is refused.
const LONGEST_HEAD: usize = 64 * 1024;

/// Appends the head of a request; the body follows it on the wire.
pub(crate) fn write_request_head(
    out: &mut Vec<u8>,
    request_line: (&str, &str),
    authority: &str,
    headers: &[(String, String)],
    body_length: Option<usize>,
) {
    let mut line = |parts: &[&str]| {
        for part in parts {
            out.extend_from_slice(part.as_bytes());
        }
        out.extend_from_slice(b"\r\n");
    };
    line(&[request_line.0, " ", request_line.1, " HTTP/1.1"]);
    line(&["Host: ", authority]);
    line(&["Accept: */*"]);
    line(&["User-Agent: peregrine-bench"]);
    for (name, value) in headers {
        line(&[name, ": ", value]);
    }
    if let Some(length) = body_length {
        line(&["Content-Type: application/json"]);
        line(&["Content-Length: ", &length.to_string()]);
    }
    line(&[]);
}

/// What a response says before its body.
#[derive(Debug)]
pub(crate) struct ResponseHead {
    pub(crate) status: u16,
    pub(crate) reason: String,
    pub(crate) content_type: String,
    pub(crate) framing: BodyFraming,
}

/// A head that is no HTTP.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub(crate) enum HeadError {
    #[error("the response head is longer than {LONGEST_HEAD} bytes")]
    TooLong,
    #[error("the response does not start with an HTTP status line: {start:?}")]
    NotHttp { start: String },
}

impl ResponseHead {
    /// Reads a head from the start of `bytes`: the head and its length, or nothing yet.
    ///
    /// Interim responses (1xx) are passed over.
    pub(crate) fn parse(bytes: &[u8]) -> Result<Option<(Self, usize)>, HeadError> {
        let mut from = 0;
        while let Some(length) = head_length(&bytes[from..])? {
            let head = Self::from_lines(&bytes[from..from + length])?;
            from += length;
            if !(100..200).contains(&head.status) {
                return Ok(Some((head, from)));
            }
            // Interim responses without end would be kept, and read again with every piece.
            if from > LONGEST_HEAD {
                return Err(HeadError::TooLong);
            }
        }
        Ok(None)
    }

    fn from_lines(head: &[u8]) -> Result<Self, HeadError> {
        let text = String::from_utf8_lossy(head);
        let mut lines = text.lines();
        let status_line = lines.next().unwrap_or_default();
        let (status, reason) = status_of(status_line).ok_or_else(|| HeadError::NotHttp {
            start: status_line.chars().take(60).collect(),
        })?;
        let mut content_type = String::new();
        let mut length = None;
        let mut chunked = false;
        for line in lines {
            let Some((name, value)) = line.split_once(':') else {
                continue;
            };
            let value = value.trim();
            match name.trim().to_ascii_lowercase().as_str() {
                "content-length" => length = value.parse().ok(),
                "transfer-encoding" => chunked = value.to_ascii_lowercase().ends_with("chunked"),
                "content-type" => value.clone_into(&mut content_type),
                _ => {}
            }
        }
        let framing = match (chunked, length) {
            _ if status == 204 || status == 304 => BodyFraming::length(0),
            (true, _) => BodyFraming::chunked(),
            (false, Some(length)) => BodyFraming::length(length),
            (false, None) => BodyFraming::until_close(),
        };
        Ok(Self {
            status,
            reason: reason.to_owned(),
            content_type,
            framing,
        })
    }
}

fn status_of(line: &str) -> Option<(u16, &str)> {
    let rest = line.strip_prefix("HTTP/1.")?;
    let mut parts = rest.splitn(3, ' ');
    parts.next()?;
    let status = parts
        .next()?
        .parse()
        .ok()
        .filter(|status| (100..1000).contains(status))?;
    Some((status, parts.next().unwrap_or_default().trim()))
}

/// The length of a head that ends in an empty line, if all of it is here.
fn head_length(bytes: &[u8]) -> Result<Option<usize>, HeadError> {
    let mut line_start = 0;
    for end in memchr::memchr_iter(b'\n', &bytes[..bytes.len().min(LONGEST_HEAD)]) {
        if matches!(&bytes[line_start..end], b"" | b"\r") && line_start > 0 {
            return Ok(Some(end + 1));
        }
        line_start = end + 1;
    }
    if bytes.len() >= LONGEST_HEAD {
        Err(HeadError::TooLong)
    } else {
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_is_read_wherever_the_bytes_were_cut() {
        let bytes = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\
            transfer-encoding: chunked\r\n\r\n5\r\nhello";
        for cut in 0..bytes.len() - 8 {
            assert!(
                ResponseHead::parse(&bytes[..cut]).unwrap().is_none(),
                "cut at {cut}"
            );
        }
        let (head, length) = ResponseHead::parse(bytes).unwrap().unwrap();
        assert_eq!((head.status, head.reason.as_str()), (200, "OK"));
        assert_eq!(head.content_type, "text/event-stream");
        assert_eq!(&bytes[length..], b"5\r\nhello");
    }

    #[test]
    fn an_interim_response_is_passed_over() {
        let bytes = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 503 Service Unavailable\n\n";
        let (head, length) = ResponseHead::parse(bytes).unwrap().unwrap();
        assert_eq!(
            (head.status, head.reason.as_str()),
            (503, "Service Unavailable")
        );
        assert_eq!(length, bytes.len());
    }

    #[test]
    fn interim_responses_without_end_are_refused() {
        let interim = b"HTTP/1.1 100 Continue\r\n\r\n".repeat(LONGEST_HEAD / 25 + 1);
        let parsed = ResponseHead::parse(&interim);
        assert_eq!(parsed.unwrap_err(), HeadError::TooLong);
    }

    #[test]
    fn what_is_no_head_is_refused() {
        for bytes in [
            &b"SSH-2.0-x\r\n\r\n"[..],
            b"HTTP/1.1 abc\r\n\r\n",
            b"HTTP/1.1 99 x\r\n\r\n",
        ] {
            let error = ResponseHead::parse(bytes).unwrap_err();
            assert!(matches!(error, HeadError::NotHttp { .. }));
        }
        let endless = vec![b'x'; LONGEST_HEAD];
        assert_eq!(
            ResponseHead::parse(&endless).unwrap_err(),
            HeadError::TooLong
        );
    }

    #[test]
    fn a_request_head_says_who_what_and_how_long() {
        let mut out = Vec::new();
        let headers = [("Authorization".to_owned(), "Bearer k".to_owned())];
        write_request_head(&mut out, ("POST", "/generate"), "h:1", &headers, Some(7));
        assert_eq!(
            String::from_utf8(out).unwrap(),
            "POST /generate HTTP/1.1\r\nHost: h:1\r\nAccept: */*\r\nUser-Agent: peregrine-bench\r\n\
             Authorization: Bearer k\r\nContent-Type: application/json\r\nContent-Length: 7\r\n\r\n"
        );
    }
}
