use std::net::SocketAddr;

use axum::extract::{ConnectInfo, Request};
use axum::middleware::Next;
use axum::response::Response;
use http::{Method, StatusCode, Uri, Version};

/// Logs every request when its answer begins.
pub(crate) async fn log(
    ConnectInfo(peer): ConnectInfo<SocketAddr>,
    request: Request,
    next: Next,
) -> Response {
    let (method, uri, version) = (
        request.method().clone(),
        request.uri().clone(),
        request.version(),
    );
    let response = next.run(request).await;
    tracing::info!("{}", line(peer, &method, &uri, version, response.status()));
    response
}

/// As Uvicorn writes it.
fn line(
    peer: SocketAddr,
    method: &Method,
    uri: &Uri,
    version: Version,
    status: StatusCode,
) -> String {
    let target = uri.path_and_query().map_or("/", |target| target.as_str());
    let reason = status.canonical_reason().unwrap_or_default();
    format!(
        "INFO:     {peer} - \"{method} {target} {version:?}\" {} {reason}",
        status.as_u16()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_look_like_those_of_uvicorn() {
        let line = line(
            "127.0.0.1:4242".parse().unwrap(),
            &Method::POST,
            &"/generate?x=1".parse().unwrap(),
            Version::HTTP_11,
            StatusCode::OK,
        );
        assert_eq!(
            line,
            r#"INFO:     127.0.0.1:4242 - "POST /generate?x=1 HTTP/1.1" 200 OK"#
        );
    }
}
