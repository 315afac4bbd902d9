//! Connections: taken as long as the server is open, and kept as long as they say what they want.

mod flood;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::Body;
use axum::extract::ConnectInfo;
use http::Request;
use hyper::body::Incoming;
use hyper::server::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tower::ServiceExt as _;

use self::flood::Guarded;
use crate::config::Limits;
use crate::tls::Tls;

/// How long to wait when the system has no more files for connections.
const EXHAUSTED: Duration = Duration::from_secs(1);
/// How clients that speak HTTP/2 begin.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// How often to look for the rest of that.
const LOOK: Duration = Duration::from_millis(10);

/// Bytes of a request's head.
const MAX_HEAD: usize = 64 << 10;
/// Further connections are logged to wait at most this often.
const REMINDER: Duration = Duration::from_secs(10);

/// Serves whoever connects until the sender of `closed` is gone, and then until all that was asked is answered. A connection
/// that does not send the whole head of a request in time is closed; of HTTP/2, one that does not begin, one that says
/// nothing for twice as long, though it is asked whether it is still there, and one that floods.
pub(crate) async fn serve(
    listener: TcpListener,
    app: Router,
    limits: Limits,
    tls: Option<Tls>,
    mut closed: watch::Receiver<()>,
) {
    let open = GracefulShutdown::new();
    let mut places = Places::new(limits.connections);
    loop {
        let next = async {
            let place = places.next().await;
            (place, accept(&listener).await)
        };
        let (place, (stream, address)) = tokio::select! {
            next = next => next,
            _ = closed.changed() => break,
        };
        // Events are small and each should arrive at once; a socket that refuses still works.
        let _ = stream.set_nodelay(true);
        let connection = Connection {
            address,
            app: app.clone(),
            limits,
            watcher: open.watcher(),
            _place: place,
        };
        tokio::spawn(connection.run(stream, tls.clone(), closed.clone()));
    }
    drop(listener);
    open.shutdown().await;
}

/// Room for connections.
struct Places {
    free: Arc<Semaphore>,
    limit: usize,
    reminded: Option<Instant>,
}

impl Places {
    fn new(limit: usize) -> Self {
        Self {
            free: Arc::new(Semaphore::new(limit)),
            limit,
            reminded: None,
        }
    }

    /// A place for the next connection, when there is one.
    async fn next(&mut self) -> Option<OwnedSemaphorePermit> {
        if let Ok(place) = Arc::clone(&self.free).try_acquire_owned() {
            return Some(place);
        }
        if self.reminded.is_none_or(|then| then.elapsed() >= REMINDER) {
            self.reminded = Some(Instant::now());
            tracing::warn!(
                "{} connections are open, as many as --max-connections allows; further ones wait",
                self.limit
            );
        }
        // The semaphore is never closed.
        Arc::clone(&self.free).acquire_owned().await.ok()
    }
}

struct Connection {
    address: SocketAddr,
    app: Router,
    limits: Limits,
    watcher: Watcher,
    _place: Option<OwnedSemaphorePermit>,
}

impl Connection {
    async fn run(self, stream: TcpStream, tls: Option<Tls>, mut closed: watch::Receiver<()>) {
        let head_time = self.limits.head_time;
        // Nothing was asked yet: what closes the server may close these.
        if let Some(tls) = tls {
            let acceptor = tls.acceptor();
            let agreed = tokio::select! {
                agreed = tokio::time::timeout(head_time, acceptor.accept(stream)) => agreed,
                _ = closed.changed() => return,
            };
            if let Ok(Ok(stream)) = agreed {
                let http2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
                self.speak(http2, stream).await;
            }
            return;
        }
        let begun = tokio::select! {
            begun = tokio::time::timeout(head_time, speaks_http2(&stream)) => begun,
            _ = closed.changed() => return,
        };
        if let Ok(Ok(http2)) = begun {
            self.speak(http2, stream).await;
        }
    }

    async fn speak<S>(self, is_http2: bool, stream: S)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let (address, limits) = (self.address, self.limits);
        let service = self.app.map_request(move |request| named(request, address));
        let service = TowerToHyperService::new(service);
        let served = if is_http2 {
            let io = TokioIo::new(Guarded::new(stream, address));
            self.watcher
                .watch(http2(limits).serve_connection(io, service))
                .await
        } else {
            let io = TokioIo::new(stream);
            self.watcher
                .watch(http1(limits).serve_connection(io, service))
                .await
        };
        // Clients that leave are no error of ours.
        if let Err(error) = served {
            tracing::debug!("a connection of {address} ended: {error}");
        }
    }
}

fn http2(limits: Limits) -> http2::Builder<TokioExecutor> {
    let mut builder = http2::Builder::new(TokioExecutor::new());
    builder
        .timer(TokioTimer::new())
        .keep_alive_interval(limits.head_time)
        .keep_alive_timeout(limits.head_time)
        .max_concurrent_streams(limits.streams)
        .max_header_list_size(MAX_HEAD as u32);
    builder
}

fn http1(limits: Limits) -> http1::Builder {
    let mut builder = http1::Builder::new();
    builder
        .timer(TokioTimer::new())
        .header_read_timeout(limits.head_time)
        .max_header_size(MAX_HEAD)
        .max_buf_size(2 * MAX_HEAD);
    builder
}

/// True when the client's first words say so; an error when it says none and leaves.
async fn speaks_http2(stream: &TcpStream) -> io::Result<bool> {
    let mut words = [0; PREFACE.len()];
    loop {
        let count = stream.peek(&mut words).await?;
        if count == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        if !PREFACE.starts_with(&words[..count]) {
            return Ok(false);
        }
        if count == PREFACE.len() {
            return Ok(true);
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// A request with the address it came from.
fn named(request: Request<Incoming>, address: SocketAddr) -> Request<Body> {
    let mut request = request.map(Body::new);
    request.extensions_mut().insert(ConnectInfo(address));
    request
}

/// The next connection. One that is gone already is passed over; without files for more, those that are open go on.
async fn accept(listener: &TcpListener) -> (TcpStream, SocketAddr) {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    loop {
        match listener.accept().await {
            Ok(accepted) => return accepted,
            Err(error) => match error.kind() {
                ConnectionAborted | ConnectionRefused | ConnectionReset => {}
                _ => {
                    tracing::error!("no connection can be taken: {error}");
                    tokio::time::sleep(EXHAUSTED).await;
                }
            },
        }
    }
}
