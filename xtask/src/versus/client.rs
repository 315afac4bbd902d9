//! One streamed completion over plain HTTP, timed. The same for every server.

use std::io::{BufRead as _, BufReader, Read, Write as _};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use serde::Deserialize;

/// A server that says nothing for this long is broken.
const TIMEOUT: Duration = Duration::from_mins(5);

/// When the tokens of a completion came.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Completion {
    /// Tokens produced.
    pub(crate) tokens: usize,
    /// From sending to the first token.
    pub(crate) first: Duration,
    /// From sending to the last token.
    pub(crate) last: Duration,
}

#[derive(Deserialize)]
struct Chunk {
    #[serde(default)]
    choices: Vec<serde::de::IgnoredAny>,
    usage: Option<Usage>,
}

#[derive(Deserialize)]
struct Usage {
    prompt_tokens: usize,
    completion_tokens: usize,
}

/// Asks for exactly `tokens` tokens after the prompt and waits for them.
pub(crate) fn complete(port: u16, prompt: &[u32], tokens: usize) -> anyhow::Result<Completion> {
    let body = serde_json::json!({
        "model": "default",
        "prompt": prompt,
        "max_tokens": tokens,
        "temperature": 0,
        "ignore_eos": true,
        "stream": true,
        "stream_options": { "include_usage": true },
        "cache_prompt": false,
    });
    let sent = Instant::now();
    let reply = post(port, "/v1/completions", &body.to_string())?;
    let (mut first, mut last, mut usage) = (None, None, None);
    for line in BufReader::new(reply).lines() {
        let line = line.context("the stream broke")?;
        let Some(data) = line.strip_prefix("data: ") else {
            continue;
        };
        if data == "[DONE]" {
            break;
        }
        let chunk: Chunk =
            serde_json::from_str(data).with_context(|| format!("unexpected event {data}"))?;
        if !chunk.choices.is_empty() && usage.is_none() {
            last = Some(sent.elapsed());
            first = first.or(last);
        }
        usage = chunk.usage.or(usage);
    }
    let usage = usage.context("the stream ended without a count of tokens")?;
    ensure!(
        (usage.prompt_tokens, usage.completion_tokens) == (prompt.len(), tokens),
        "asked for {} tokens in and {tokens} out, the server counted {} and {}",
        prompt.len(),
        usage.prompt_tokens,
        usage.completion_tokens
    );
    Ok(Completion {
        tokens,
        first: first.context("the stream had no token")?,
        last: last.context("the stream had no token")?,
    })
}

/// Whether the server answers its health check.
pub(crate) fn is_ready(port: u16) -> bool {
    request(
        port,
        "GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n",
    )
    .is_ok()
}

fn post(port: u16, path: &str, body: &str) -> anyhow::Result<Box<dyn Read>> {
    request(
        port,
        &format!(
            "POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n\
             Content-Length: {}\r\nConnection: close\r\n\r\n{body}",
            body.len()
        ),
    )
}

/// Sends a request and gives the body of a good answer.
fn request(port: u16, message: &str) -> anyhow::Result<Box<dyn Read>> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).context("cannot connect")?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    stream.write_all(message.as_bytes())?;
    answer(stream)
}

fn answer(stream: impl Read + 'static) -> anyhow::Result<Box<dyn Read>> {
    let mut reader = BufReader::new(stream);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        ensure!(reader.read_line(&mut head)? > 0, "the answer has no body");
    }
    let head = head.to_ascii_lowercase();
    let status = head.split_whitespace().nth(1).unwrap_or_default();
    let chunked = head.contains("transfer-encoding: chunked");
    let mut body: Box<dyn Read> = if chunked {
        Box::new(Chunked { reader, left: 0 })
    } else {
        Box::new(reader)
    };
    if status != "200" {
        let mut text = String::new();
        body.read_to_string(&mut text)?;
        bail!("the server answered {status}: {text}");
    }
    Ok(body)
}

/// A body in chunks, as one stream of bytes.
struct Chunked<R> {
    reader: BufReader<R>,
    /// Bytes of the current chunk still to be read.
    left: usize,
}

impl<R: Read> Read for Chunked<R> {
    fn read(&mut self, out: &mut [u8]) -> std::io::Result<usize> {
        if self.left == 0 {
            let mut line = String::new();
            // a chunk is followed by an empty line
            while line.trim().is_empty() {
                line.clear();
                if self.reader.read_line(&mut line)? == 0 {
                    return Ok(0);
                }
            }
            let digits = line.trim().split(';').next().unwrap_or_default();
            self.left = usize::from_str_radix(digits, 16)
                .map_err(|_| std::io::Error::other(format!("bad chunk size {digits:?}")))?;
            if self.left == 0 {
                return Ok(0);
            }
        }
        let wanted = out.len().min(self.left);
        let read = self.reader.read(&mut out[..wanted])?;
        self.left -= read;
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn body(text: &'static str) -> anyhow::Result<String> {
        let mut out = String::new();
        answer(text.as_bytes())?.read_to_string(&mut out)?;
        Ok(out)
    }

    #[test]
    fn chunks_are_joined_wherever_they_are_cut() {
        let text = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n\
            3\r\ndat\r\n4;x=y\r\na: 1\r\nb\r\n\n\ndata: 2\n\n\r\n0\r\n\r\n";
        assert_eq!(body(text).unwrap(), "data: 1\n\ndata: 2\n\n");
    }

    #[test]
    fn a_refusal_is_an_error_with_its_text() {
        let error = body("HTTP/1.1 503 Busy\r\n\r\nqueue is full").unwrap_err();
        assert_eq!(error.to_string(), "the server answered 503: queue is full");
    }
}
