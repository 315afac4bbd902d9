//! Requests to a hub. Redirects are followed here, not by the HTTP client: the token goes to the
//! hub's own origin alone, and only that origin may say what a file's hash is.

use std::time::Duration;

use ureq::http::{HeaderMap, Response, Uri, header};
use ureq::{Agent, Body, ResponseExt as _};

/// Enough for a renamed repository on a mirror behind a content network.
const MOST_REDIRECTS: usize = 8;
const CONNECT: Duration = Duration::from_secs(30);
/// Silence after which a transfer counts as broken.
const SILENCE: Duration = Duration::from_mins(1);
/// A description of a repository with very many files takes a few megabytes.
const MOST_TEXT: u64 = 64 << 20;

/// Speaks to one hub.
pub(crate) struct Client {
    agent: Agent,
    endpoint: String,
    token: Option<String>,
}

/// What the hub itself says about a file, beside its bytes.
#[derive(Debug, Default)]
pub(crate) struct Facts {
    /// The entity tag of the stored bytes.
    pub etag: Option<String>,
    /// The commit that the revision stands for.
    pub commit: Option<String>,
    /// Its size.
    pub bytes: Option<u64>,
}

/// Why there is no answer.
#[derive(Debug)]
pub(crate) enum Fault {
    /// The host cannot be reached, or the connection broke.
    Unreachable(String),
    /// The hub answered with this status.
    Status(u16),
    /// The answer makes no sense.
    Nonsense(String),
}

impl Client {
    /// A client for the hub at this address.
    pub(crate) fn new(endpoint: &str, token: Option<String>) -> Self {
        let config = Agent::config_builder()
            .max_redirects(0)
            .timeout_connect(Some(CONNECT))
            .timeout_per_read(Some(SILENCE))
            .user_agent(concat!("peregrine/", env!("CARGO_PKG_VERSION")));
        Self {
            agent: config.build().into(),
            endpoint: endpoint.trim_end_matches('/').to_owned(),
            token,
        }
    }

    /// A small document at a path of the hub.
    pub(crate) fn text(&self, path: &str) -> Result<Vec<u8>, Fault> {
        let (mut response, _) = self.follow(path, None, |_| false)?;
        let body = response.body_mut().with_config().limit(MOST_TEXT);
        body.read_to_vec().map_err(fault)
    }

    /// What the hub says about a file; another host is asked only for a size that the hub leaves out.
    pub(crate) fn facts(&self, path: &str) -> Result<Facts, Fault> {
        let (response, mut facts) = self.follow(path, Some("bytes=0-0"), |facts| {
            facts.etag.is_some() && facts.bytes.is_some()
        })?;
        if facts.bytes.is_none() {
            let range = text(response.headers(), header::CONTENT_RANGE.as_str());
            let size = range.and_then(|range| range.rsplit('/').next()?.parse().ok());
            facts.bytes = size.or_else(|| response.body().content_length());
        }
        Ok(facts)
    }

    /// The bytes of a file from an offset on; the status says whether the offset was followed.
    pub(crate) fn bytes(&self, path: &str, from: u64) -> Result<Response<Body>, Fault> {
        let range = format!("bytes={from}-");
        let (response, _) = self.follow(path, Some(&range), |_| false)?;
        Ok(response)
    }

    /// Follows redirects until the answer is none, or the facts are enough.
    fn follow(
        &self,
        path: &str,
        range: Option<&str>,
        enough: impl Fn(&Facts) -> bool,
    ) -> Result<(Response<Body>, Facts), Fault> {
        let mut address = parse(&format!("{}{path}", self.endpoint))?;
        let home = origin(&address);
        let mut facts = Facts::default();
        for _ in 0..=MOST_REDIRECTS {
            let at_home = origin(&address) == home;
            let mut request = self.agent.get(&address);
            if let Some(range) = range {
                request = request.header(header::RANGE, range);
            }
            if let Some(token) = self.token.as_ref().filter(|_| at_home) {
                request = request.header(header::AUTHORIZATION, format!("Bearer {token}"));
            }
            let response = request.call().map_err(fault)?;
            if at_home {
                facts.hear(response.headers());
            }
            if !response.status().is_redirection() || enough(&facts) {
                return Ok((response, facts));
            }
            address = target(&response)?;
        }
        Err(Fault::Nonsense(format!(
            "more than {MOST_REDIRECTS} redirects for {path}"
        )))
    }
}

impl Facts {
    /// A later answer of the hub knows better than the redirect before it.
    fn hear(&mut self, headers: &HeaderMap) {
        let linked = text(headers, "x-linked-etag").or_else(|| text(headers, "etag"));
        if let Some(etag) = linked {
            self.etag = Some(etag.replace('"', ""));
        }
        if let Some(commit) = text(headers, "x-repo-commit") {
            self.commit = Some(commit.to_owned());
        }
        if let Some(bytes) = text(headers, "x-linked-size") {
            self.bytes = bytes.parse().ok();
        }
    }
}

/// Where a redirect leads: another address, or a path on the same host. Never from HTTPS to HTTP.
fn target(response: &Response<Body>) -> Result<Uri, Fault> {
    let from = response.get_uri();
    let location = text(response.headers(), header::LOCATION.as_str());
    let location = location
        .ok_or_else(|| Fault::Nonsense(format!("a redirect from {from} that leads nowhere")))?;
    let to = if location.starts_with('/') && !location.starts_with("//") {
        let (scheme, host) = origin(from);
        parse(&format!("{scheme}://{host}{location}"))?
    } else {
        parse(location)?
    };
    if from.scheme_str() == Some("https") && to.scheme_str() != Some("https") {
        return Err(Fault::Nonsense(format!(
            "a redirect from {from} that gives up encryption"
        )));
    }
    Ok(to)
}

fn parse(address: &str) -> Result<Uri, Fault> {
    let nonsense = || Fault::Nonsense(format!("'{address}', which is no address"));
    let uri: Uri = address.parse().map_err(|_| nonsense())?;
    let whole = matches!(uri.scheme_str(), Some("http" | "https")) && uri.host().is_some();
    if whole { Ok(uri) } else { Err(nonsense()) }
}

/// Scheme, host and port: what a token may be told to.
fn origin(address: &Uri) -> (String, String) {
    let authority = address
        .authority()
        .map_or("", |authority| authority.as_str());
    (
        address.scheme_str().unwrap_or_default().to_owned(),
        authority.to_ascii_lowercase(),
    )
}

fn text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name)?.to_str().ok()
}

fn fault(error: ureq::Error) -> Fault {
    match error {
        ureq::Error::StatusCode(status) => Fault::Status(status),
        ureq::Error::BodyExceedsLimit(most) => {
            Fault::Nonsense(format!("more than {most} bytes of description"))
        }
        other => Fault::Unreachable(other.to_string()),
    }
}
