//! A small HTTP server that answers as the hub does, with faults on request.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

pub(crate) const COMMIT: &str = "0123456789abcdef0123456789abcdef01234567";

/// What goes wrong, and how often, before the server behaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// Transfers of the file stop after this many bytes.
    BreakAfter(usize),
    /// Transfers carry other bytes of the same length.
    Garble,
    /// Ranges are ignored: the whole file is sent.
    IgnoreRange,
}

#[derive(Debug, Clone)]
pub(crate) struct HubFile {
    pub(crate) content: Vec<u8>,
    pub(crate) etag: String,
}

#[derive(Default)]
struct State {
    files: BTreeMap<String, HubFile>,
    faults: Vec<(String, Fault)>,
    requests: Vec<String>,
    token: Option<String>,
    redirects: Vec<(String, String)>,
    tokens_seen: Vec<Option<String>>,
}

/// A hub with one repository, `maker/tiny`, listening on a free port.
pub(crate) struct StandIn {
    pub(crate) endpoint: String,
    state: Arc<Mutex<State>>,
}

impl StandIn {
    pub(crate) fn new(files: &[(&str, HubFile)]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let endpoint = format!("http://{}", listener.local_addr().unwrap());
        let files = files
            .iter()
            .map(|(name, file)| ((*name).to_owned(), file.clone()))
            .collect();
        let state = Arc::new(Mutex::new(State {
            files,
            ..State::default()
        }));
        let shared = Arc::clone(&state);
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let shared = Arc::clone(&shared);
                thread::spawn(move || answer(&stream, &shared));
            }
        });
        Self { endpoint, state }
    }

    pub(crate) fn fault(&self, name: &str, fault: Fault) {
        self.state
            .lock()
            .unwrap()
            .faults
            .push((name.to_owned(), fault));
    }

    pub(crate) fn require_token(&self, token: &str) {
        self.state.lock().unwrap().token = Some(token.to_owned());
    }

    /// Answers requests for this path with another address.
    pub(crate) fn redirect(&self, path: &str, to: &str) {
        let redirect = (path.to_owned(), to.to_owned());
        self.state.lock().unwrap().redirects.push(redirect);
    }

    /// The tokens that came, probes included.
    pub(crate) fn tokens_seen(&self) -> Vec<Option<String>> {
        self.state.lock().unwrap().tokens_seen.clone()
    }

    /// Requests so far as `path range`.
    pub(crate) fn requests(&self) -> Vec<String> {
        self.state.lock().unwrap().requests.clone()
    }
}

struct Request {
    path: String,
    range: Option<usize>,
    probe: bool,
    token: Option<String>,
}

fn read_request(stream: &TcpStream) -> Option<Request> {
    let mut lines = BufReader::new(stream).lines().map_while(Result::ok);
    let path = lines.next()?.split(' ').nth(1)?.to_owned();
    let mut request = Request {
        path,
        range: None,
        probe: false,
        token: None,
    };
    for line in lines.take_while(|line| !line.is_empty()) {
        let (name, value) = line.split_once(": ")?;
        match name.to_lowercase().as_str() {
            "range" => {
                let (from, to) = value.strip_prefix("bytes=")?.split_once('-')?;
                request.range = from.parse().ok();
                request.probe = to == "0";
            }
            "authorization" => request.token = value.strip_prefix("Bearer ").map(str::to_owned),
            _ => {}
        }
    }
    Some(request)
}

fn answer(stream: &TcpStream, state: &Mutex<State>) {
    let Some(request) = read_request(stream) else {
        return;
    };
    let mut state = state.lock().unwrap();
    let range = request
        .range
        .map_or(String::new(), |from| format!(" {from}-"));
    if !request.probe {
        state.requests.push(format!("{}{range}", request.path));
    }
    state.tokens_seen.push(request.token.clone());
    if let Some((_, to)) = state
        .redirects
        .iter()
        .find(|(path, _)| *path == request.path)
    {
        return redirect(stream, to);
    }
    if state.token.is_some() && state.token != request.token {
        return send(stream, "401 Unauthorized", &[], b"{\"error\":\"gated\"}");
    }
    if request.path == "/api/models/maker/tiny/revision/main" {
        let siblings: Vec<_> = state
            .files
            .keys()
            .map(|name| serde_json::json!({ "rfilename": name }))
            .collect();
        let info = serde_json::json!({ "sha": COMMIT, "siblings": siblings });
        return send(stream, "200 OK", &[], info.to_string().as_bytes());
    }
    let name = request
        .path
        .strip_prefix("/maker/tiny/resolve/main/")
        .map(str::to_owned);
    let Some((name, file)) =
        name.and_then(|name| Some((name.clone(), state.files.get(&name)?.clone())))
    else {
        return send(stream, "404 Not Found", &[], b"{}");
    };
    if request.probe {
        return send_file(stream, &file, 0, 1, file.content.len());
    }
    let place = state.faults.iter().position(|(faulty, _)| *faulty == name);
    let fault = place.map(|place| state.faults.remove(place).1);
    let from = request.range.unwrap_or(0).min(file.content.len());
    match fault {
        Some(Fault::BreakAfter(count)) => send_file(stream, &file, from, count, file.content.len()),
        Some(Fault::IgnoreRange) => {
            send(stream, "200 OK", &[("etag", &file.etag)], &file.content);
        }
        Some(Fault::Garble) => {
            let content = vec![b'#'; file.content.len()];
            send_file(
                stream,
                &HubFile {
                    content,
                    ..file.clone()
                },
                from,
                usize::MAX,
                file.content.len(),
            );
        }
        None => send_file(stream, &file, from, usize::MAX, file.content.len()),
    }
}

/// What the hub says about every file is in the redirect, as on the real one.
fn redirect(mut stream: &TcpStream, to: &str) {
    let head = format!(
        "HTTP/1.1 302 Found\r\nconnection: close\r\nx-repo-commit: {COMMIT}\r\nlocation: {to}\r\n\
         content-length: 0\r\n\r\n"
    );
    let _ = stream.write_all(head.as_bytes());
}

/// Announces everything from `from` on but sends at most `count` bytes (a probe announces what it sends).
fn send_file(mut stream: &TcpStream, file: &HubFile, from: usize, count: usize, total: usize) {
    let rest = &file.content[from..];
    let sent = &rest[..count.min(rest.len())];
    let announced = if count == 1 { sent.len() } else { rest.len() };
    let head = format!(
        "HTTP/1.1 206 Partial Content\r\nconnection: close\r\nx-repo-commit: {COMMIT}\r\nx-linked-etag: \"{}\"\r\n\
         etag: \"{}\"\r\nx-linked-size: {total}\r\ncontent-range: bytes {from}-{}/{total}\r\ncontent-length: {announced}\r\n\r\n",
        file.etag,
        file.etag,
        from + announced.saturating_sub(1)
    );
    let _ = stream
        .write_all(head.as_bytes())
        .and_then(|()| stream.write_all(sent));
}

fn send(mut stream: &TcpStream, status: &str, headers: &[(&str, &str)], body: &[u8]) {
    let mut head = format!(
        "HTTP/1.1 {status}\r\nconnection: close\r\ncontent-length: {}\r\n",
        body.len()
    );
    for (name, value) in headers {
        let _ = write!(head, "{name}: \"{value}\"\r\n");
    }
    let _ = stream
        .write_all((head + "\r\n").as_bytes())
        .and_then(|()| stream.write_all(body));
}
