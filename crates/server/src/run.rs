use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use engine::EngineHandle;
use tokio::net::TcpListener;
use tokio::sync::watch;

use crate::admission::Phase;
use crate::app::app;
use crate::config::{ServerConfig, Warmup};
use crate::connections;
use crate::error::ServerError;
use crate::pipeline::TextPipeline;
use crate::shutdown::{StopRequests, Stopped, supervise};
use crate::state::{Shared, State};
use crate::warmup::warm_up;

/// How long connections get to close when everything is answered.
const GOODBYE: Duration = Duration::from_secs(2);

/// Serves until SIGTERM or SIGINT, then answers what runs and returns; a second signal does not
/// wait. Without `text` the server takes and gives tokens only.
pub async fn run(
    config: ServerConfig,
    engine: EngineHandle,
    text: Option<TextPipeline>,
) -> Result<Stopped, ServerError> {
    let requests = StopRequests::by_signals()?;
    Server::bind(config, engine, text)
        .await?
        .serve(requests)
        .await
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
        let host = &state.config.host;
        let port = address.port();
        let (close, closed) = watch::channel(());
        let (app, head_time) = (app(Arc::clone(&state)), state.config.head_time);
        let mut server = tokio::spawn(connections::serve(listener, app, head_time, closed));
        tracing::info!("INFO:     Uvicorn running on http://{host}:{port} (Press CTRL+C to quit)");
        let life = async {
            let mut asked = requests.clone();
            tokio::select! {
                ready = get_ready(&state, address) => ready?,
                () = asked.reached(1) => {}
            }
            supervise(&state, requests).await
        };
        let stopped = life.await;
        drop(close);
        if !matches!(stopped, Ok(Stopped::AtOnce)) {
            // Answers and errors on their way should arrive; connections held open should not count.
            let _ = tokio::time::timeout(GOODBYE, &mut server).await;
        }
        server.abort();
        stopped
    }
}

async fn get_ready(state: &Shared, address: SocketAddr) -> Result<(), ServerError> {
    if state.config.warmup == Warmup::Request {
        warm_up(state, address).await?;
    }
    state.admission.advance(Phase::Ready);
    tracing::info!("The server is fired up and ready to roll!");
    Ok(())
}
