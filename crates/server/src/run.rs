use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use engine::EngineHandle;
use tokio::net::TcpListener;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;

use crate::admission::Phase;
use crate::app::app;
use crate::config::{ServerConfig, Warmup};
use crate::connections;
use crate::error::ServerError;
use crate::pipeline::TextPipeline;
use crate::shutdown::{StopRequests, Stopped, supervise};
use crate::state::{Shared, State};
use crate::tls::Tls;
use crate::warmup::warm_up;

/// How long connections get to close when everything is answered.
const GOODBYE: Duration = Duration::from_secs(2);

/// Serves until SIGTERM or SIGINT, then answers what runs and returns; a second signal does not
/// wait. SIGHUP reads the files of encrypted connections again. Without `text` the server takes and gives tokens only.
pub async fn run(
    config: ServerConfig,
    engine: EngineHandle,
    text: Option<TextPipeline>,
) -> Result<Stopped, ServerError> {
    let requests = StopRequests::by_signals()?;
    let hang_ups = signal(SignalKind::hangup())?;
    let reloading = tokio::spawn(reload_at(hang_ups, config.tls.clone()));
    let server = Server::bind(config, engine, text).await?;
    let stopped = server.serve(requests).await;
    reloading.abort();
    stopped
}

async fn reload_at(mut hang_ups: Signal, tls: Option<Tls>) {
    while hang_ups.recv().await.is_some() {
        if let Some(tls) = &tls {
            tls.reload();
        } else {
            tracing::info!("SIGHUP ignored: there are no TLS files to read again");
        }
    }
}

/// A server that has an address.
pub struct Server {
    listener: TcpListener,
    address: SocketAddr,
    state: Shared,
}

impl Server {
    /// Takes the address; connections wait until [`serve`](Self::serve).
    pub async fn bind(
        config: ServerConfig,
        engine: EngineHandle,
        text: Option<TextPipeline>,
    ) -> Result<Self, ServerError> {
        let wanted = (config.host.as_str(), config.port);
        let listen = async {
            let listener = TcpListener::bind(wanted).await?;
            let address = listener.local_addr()?;
            Ok((listener, address))
        };
        let (listener, address) = listen.await.map_err(|source| ServerError::Listen {
            address: format!("{}:{}", config.host, config.port),
            source,
        })?;
        let state = Arc::new(State::new(config, engine, text));
        Ok(Self {
            listener,
            address,
            state,
        })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves until it is asked to stop.
    pub async fn serve(self, requests: StopRequests) -> Result<Stopped, ServerError> {
        let Self {
            listener,
            address,
            state,
        } = self;
        let config = &state.config;
        let (close, closed) = watch::channel(());
        let app = app(Arc::clone(&state), address.ip().is_loopback());
        let (limits, tls) = (config.limits, config.tls.clone());
        let listening = connections::serve(listener, app.clone(), limits, tls.clone(), closed);
        let mut server = tokio::spawn(listening);
        announce(config, address);
        let refreshing = tls.map(|tls| tokio::spawn(tls.keep_fresh()));
        let life = async {
            let mut asked = requests.clone();
            tokio::select! {
                ready = get_ready(&state, app, address) => ready?,
                () = asked.reached(1) => {}
            }
            supervise(&state, requests).await
        };
        let stopped = life.await;
        if matches!(stopped, Ok(Stopped::Drained)) {
            state.profiles.finish(&state.engine).await;
        }
        if let Some(refreshing) = refreshing {
            refreshing.abort();
        }
        drop(close);
        if !matches!(stopped, Ok(Stopped::AtOnce)) {
            // Answers and errors on their way should arrive; connections held open should not count.
            let _ = tokio::time::timeout(GOODBYE, &mut server).await;
        }
        server.abort();
        stopped
    }
}

/// Logs where clients find the server, and what anybody who finds it may do.
fn announce(config: &ServerConfig, address: SocketAddr) {
    let scheme = if config.tls.is_some() {
        "https"
    } else {
        "http"
    };
    let (host, port) = (&config.host, address.port());
    tracing::info!("INFO:     Uvicorn running on {scheme}://{host}:{port} (Press CTRL+C to quit)");
    if !address.ip().is_loopback() && !config.keys.are_set() {
        tracing::warn!(
            "The server listens on {host} without a key: everybody who reaches it may use, abort and flush it. Set --api-key, or \
             --host 127.0.0.1."
        );
    }
}

async fn get_ready(state: &Shared, app: Router, address: SocketAddr) -> Result<(), ServerError> {
    if state.config.warmup == Warmup::Request {
        warm_up(state, app, address).await?;
    }
    state.admission.advance(Phase::Ready);
    tracing::info!("The server is fired up and ready to roll!");
    Ok(())
}
