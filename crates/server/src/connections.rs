//! Connections: taken as long as the server is open, and kept as long as they say what they want.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::ConnectInfo;
use http::Request;
use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tower::ServiceExt as _;

/// How long to wait when the system has no more files for connections.
const EXHAUSTED: Duration = Duration::from_secs(1);
/// How clients that speak HTTP/2 begin.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// How often to look for the rest of that.
const LOOK: Duration = Duration::from_millis(10);

/// Serves whoever connects until the sender of `closed` is gone, and then until all that was asked is answered. A connection
/// that does not send the whole head of a request in `head_time` is closed; of HTTP/2, one that does not begin, and one that
/// says nothing for twice as long, though it is asked whether it is still there.
pub(crate) async fn serve(
    listener: TcpListener,
    app: Router,
    head_time: Duration,
    mut closed: watch::Receiver<()>,
) {
    let open = GracefulShutdown::new();
    loop {
        let (stream, address) = tokio::select! {
            accepted = accept(&listener) => accepted,
            _ = closed.changed() => break,
        };
        // Events are small and each should arrive at once; a socket that refuses still works.
        let _ = stream.set_nodelay(true);
        let connection = Connection {
            stream,
            address,
            app: app.clone(),
            head_time,
        };
        tokio::spawn(connection.run(open.watcher(), closed.clone()));
    }
    drop(listener);
    open.shutdown().await;
}

struct Connection {
    stream: TcpStream,
    address: SocketAddr,
    app: Router,
    head_time: Duration,
}

impl Connection {
    async fn run(self, watcher: Watcher, mut closed: watch::Receiver<()>) {
        let begun = tokio::select! {
            begun = tokio::time::timeout(self.head_time, speaks_http2(&self.stream)) => begun,
            // Nothing was asked yet.
            _ = closed.changed() => return,
        };
        let Ok(Ok(http2)) = begun else {
            return;
        };
        let builder = builder(http2, self.head_time);
        let (app, address) = (self.app, self.address);
        let service = app.map_request(move |request| named(request, address));
        let service = TowerToHyperService::new(service);
        let connection = builder.serve_connection(TokioIo::new(self.stream), service);
        // Clients that leave are no error of ours.
        if let Err(error) = watcher.watch(connection.into_owned()).await {
            tracing::trace!("a connection of {address} ended: {error}");
        }
    }
}

fn builder(http2: bool, head_time: Duration) -> Builder<TokioExecutor> {
    let builder = Builder::new(TokioExecutor::new());
    if http2 {
        let mut builder = builder.http2_only();
        let mut http2 = builder.http2();
        http2
            .timer(TokioTimer::new())
            .keep_alive_interval(head_time)
            .keep_alive_timeout(head_time);
        return builder;
    }
    let mut builder = builder.http1_only();
    let mut http1 = builder.http1();
    http1
        .timer(TokioTimer::new())
        .header_read_timeout(head_time);
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
