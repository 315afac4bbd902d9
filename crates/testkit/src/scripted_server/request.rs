//! Requests as they come in.

use serde_json::Value;

/// A request that was read whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// Its place in the order of reading, over all connections.
    pub number: usize,
    /// `GET`, `POST`.
    pub method: String,
    /// The target, query included.
    pub path: String,
    /// Headers with names in lower case.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: Vec<u8>,
}

impl Request {
    /// The body as JSON; null when it is none.
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }

    /// The value of a header, by its name in lower case.
    pub fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(header, _)| header == name);
        found.map(|(_, value)| value.as_str())
    }

    /// Takes a whole request off the front of the bytes, if there is one.
    pub(super) fn take(bytes: &mut Vec<u8>, number: usize) -> Option<Self> {
        let head_end = bytes.windows(4).position(|four| four == b"\r\n\r\n")? + 4;
        let head = String::from_utf8_lossy(&bytes[..head_end]).into_owned();
        let mut lines = head.lines();
        let mut first = lines.next()?.split(' ');
        let (method, path) = (first.next()?.to_owned(), first.next()?.to_owned());
        let headers: Vec<(String, String)> = lines
            .filter_map(|line| line.split_once(':'))
            .map(|(name, value)| (name.trim().to_lowercase(), value.trim().to_owned()))
            .collect();
        let length = headers.iter().find(|(name, _)| name == "content-length");
        let length: usize = length
            .and_then(|(_, value)| value.parse().ok())
            .unwrap_or(0);
        if bytes.len() < head_end + length {
            return None;
        }
        let body = bytes[head_end..head_end + length].to_vec();
        bytes.drain(..head_end + length);
        Some(Self {
            number,
            method,
            path,
            headers,
            body,
        })
    }
}
