//! As much HTTP as a load needs: one request a connection, answers whole or in chunks.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Shutdown, TcpStream};
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use serde_json::{Value, json};

/// No answer takes longer between two tokens.
const PATIENCE: Duration = Duration::from_mins(2);
/// The longest chunk that is believed.
const LONGEST: usize = 64 << 20;

/// Where requests go.
#[derive(Clone, Copy)]
pub(crate) struct Server {
    pub(crate) port: u16,
}

/// The tokens of an answer, and its facts when it was read to the end.
pub(crate) struct Answer {
    pub(crate) tokens: Vec<u64>,
    pub(crate) facts: Option<Value>,
}

impl Server {
    /// One whole request; status and body.
    pub(crate) fn ask(
        self,
        method: &str,
        path: &str,
        body: &str,
    ) -> anyhow::Result<(u16, Vec<u8>)> {
        let mut reply = self.send(method, path, body)?;
        let mut whole = Vec::new();
        while let Some(piece) = reply.piece()? {
            whole.extend(piece);
        }
        Ok((reply.status, whole))
    }

    /// The engine's state.
    pub(crate) fn info(self) -> anyhow::Result<Value> {
        let (status, body) = self.ask("GET", "/server_info", "")?;
        ensure!(status == 200, "/server_info answered {status}");
        let mut info: Value = serde_json::from_slice(&body)?;
        Ok(info["internal_states"][0].take())
    }

    /// Streams `output` greedy tokens; goes away after `leave_after` events where that is given.
    pub(crate) fn generate(
        self,
        prompt: &[u32],
        output: u32,
        leave_after: Option<u64>,
    ) -> anyhow::Result<Answer> {
        let body = json!({
            "input_ids": prompt,
            "stream": true,
            "sampling_params": {"temperature": 0, "max_new_tokens": output, "ignore_eos": true},
        });
        let mut reply = self.send("POST", "/generate", &body.to_string())?;
        ensure!(reply.status == 200, "/generate answered {}", reply.status);
        let mut answer = Answer {
            tokens: Vec::new(),
            facts: None,
        };
        let (mut text, mut events) = (Vec::new(), 0);
        while leave_after.is_none_or(|limit| events < limit) {
            let Some(piece) = reply.piece()? else {
                bail!("the stream ended without [DONE]");
            };
            text.extend(piece);
            while let Some(end) = text.windows(2).position(|two| two == b"\n\n") {
                let event: Vec<u8> = text.drain(..end + 2).collect();
                let data = event
                    .strip_prefix(b"data: ")
                    .context("an event without data")?;
                if data.starts_with(b"[DONE]") {
                    return Ok(answer);
                }
                events += 1;
                answer.take(&serde_json::from_slice(data)?)?;
            }
        }
        // Gone without a word, as browsers go.
        reply.connection.get_ref().shutdown(Shutdown::Both)?;
        Ok(answer)
    }

    fn send(self, method: &str, path: &str, body: &str) -> anyhow::Result<Reply> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port))?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\
             Content-Type: application/json\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        stream.write_all(head.as_bytes())?;
        stream.write_all(body.as_bytes())?;
        Reply::begin(BufReader::new(stream))
    }
}

impl Answer {
    /// An event repeats all tokens so far.
    fn take(&mut self, event: &Value) -> anyhow::Result<()> {
        let Some(tokens) = event["output_ids"].as_array() else {
            bail!("an event without tokens: {event}");
        };
        let tokens: Vec<u64> = tokens.iter().filter_map(Value::as_u64).collect();
        ensure!(
            tokens.starts_with(&self.tokens),
            "an event takes tokens back"
        );
        self.tokens = tokens;
        let facts = &event["meta_info"];
        if !facts["finish_reason"].is_null() {
            self.facts = Some(facts.clone());
        }
        Ok(())
    }
}

/// An answer on its way.
struct Reply {
    connection: BufReader<TcpStream>,
    status: u16,
    /// Bytes still to come; none when they come in chunks.
    left: Option<usize>,
    ended: bool,
}

impl Reply {
    fn begin(mut connection: BufReader<TcpStream>) -> anyhow::Result<Self> {
        let status = line(&mut connection)?;
        let status = status
            .split(' ')
            .nth(1)
            .context("no status line")?
            .parse()?;
        let mut left = Some(0);
        loop {
            let header = line(&mut connection)?.to_ascii_lowercase();
            if header.is_empty() {
                break;
            }
            if let Some(length) = header.strip_prefix("content-length:") {
                left = Some(length.trim().parse()?);
            } else if header.starts_with("transfer-encoding:") && header.contains("chunked") {
                left = None;
            }
        }
        Ok(Self {
            connection,
            status,
            left,
            ended: false,
        })
    }

    /// The next piece of the body, until there is none.
    fn piece(&mut self) -> anyhow::Result<Option<Vec<u8>>> {
        if self.ended {
            return Ok(None);
        }
        let size = match self.left.take() {
            Some(size) => {
                self.ended = true;
                size
            }
            None => usize::from_str_radix(line(&mut self.connection)?.trim(), 16)?,
        };
        ensure!(size <= LONGEST, "a piece of {size} bytes");
        let mut bytes = vec![0; size];
        self.connection.read_exact(&mut bytes)?;
        if !self.ended {
            line(&mut self.connection)?;
            self.ended = size == 0;
        }
        Ok((size > 0).then_some(bytes))
    }
}

fn line(connection: &mut BufReader<TcpStream>) -> anyhow::Result<String> {
    let mut text = String::new();
    let read = connection.take(64 << 10).read_line(&mut text)?;
    ensure!(read > 0, "the connection was closed");
    Ok(text.trim_end_matches(['\r', '\n']).to_owned())
}
