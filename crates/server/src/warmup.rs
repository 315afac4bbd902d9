use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::error::ServerError;
use crate::state::Shared;

/// The longest that a first request may take: devices compile, page in and allocate.
const LIMIT: Duration = Duration::from_mins(10);

/// Sends the server its first request, as a client would.
pub(crate) async fn warm_up(state: &Shared, address: SocketAddr) -> Result<(), ServerError> {
    let sampling = json!({"temperature": 0, "max_new_tokens": 8});
    let mut body = json!({"sampling_params": sampling});
    if state.text.is_some() {
        body["text"] = json!("The capital city of France is");
    } else {
        body["input_ids"] = json!([0]);
    }
    let answer = tokio::time::timeout(LIMIT, post(state, reachable(address), &body)).await;
    let answer = answer.map_err(|_| ServerError::Warmup(format!("no answer in {LIMIT:?}")))?;
    let answer = answer.map_err(|error| ServerError::Warmup(error.to_string()))?;
    let status = answer.lines().next().unwrap_or_default();
    if status.split(' ').nth(1) == Some("200") {
        return Ok(());
    }
    let text = answer.split_once("\r\n\r\n").map_or("", |(_, body)| body);
    Err(ServerError::Warmup(format!("{status}: {text}")))
}

async fn post(state: &Shared, address: SocketAddr, body: &Value) -> std::io::Result<String> {
    let body = body.to_string();
    let key = state.config.api_key.as_ref();
    let authorization = key.map(|key| format!("Authorization: Bearer {key}\r\n"));
    let request = format!(
        "POST /generate HTTP/1.1\r\nHost: {address}\r\nContent-Type: application/json\r\n\
         Content-Length: {}\r\nConnection: close\r\n{}\r\n{body}",
        body.len(),
        authorization.unwrap_or_default(),
    );
    let mut connection = TcpStream::connect(address).await?;
    connection.write_all(request.as_bytes()).await?;
    let mut answer = Vec::new();
    connection.read_to_end(&mut answer).await?;
    Ok(String::from_utf8_lossy(&answer).into_owned())
}

/// An address that listens on all interfaces is reached on the machine's own.
fn reachable(mut address: SocketAddr) -> SocketAddr {
    match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => address.set_ip(Ipv4Addr::LOCALHOST.into()),
        IpAddr::V6(ip) if ip.is_unspecified() => address.set_ip(Ipv6Addr::LOCALHOST.into()),
        _ => {}
    }
    address
}
