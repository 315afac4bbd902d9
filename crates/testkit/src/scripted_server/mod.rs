//! A server that answers by script: what is sent, when, cut where, and how it ends.
//!
//! It exists to be measured. Every write is logged with the instants just before and just after it,
//! so a client's figures can be held against what the server really did, not what it meant to do.

mod answers;
mod intake;
mod player;
mod rendered;
mod request;
mod script;

pub use answers::{Generation, Voice, standard};
pub use rendered::{Rendered, Stretch};
pub use request::Request;
pub use script::{Act, Script, Step};

use intake::Intake;
use mio::net::TcpListener;
use mio::{Interest, Poll, Waker};
use player::Player;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Instant;

/// One request and what was done about it.
#[derive(Clone, Debug)]
pub struct Exchange {
    /// What was asked.
    pub request: Request,
    /// When the whole request had been read.
    pub received: Instant,
    /// What was sent, in order.
    pub sends: Vec<Sent>,
}

/// One write of a script's step.
#[derive(Clone, Copy, Debug)]
pub struct Sent {
    /// The step of the script.
    pub step: usize,
    /// Just before its last byte was given to the system.
    pub before: Instant,
    /// Just after.
    pub after: Instant,
}

type Log = Arc<Mutex<Vec<Exchange>>>;

/// A running server; dropping it ends it.
pub struct ScriptedServer {
    address: SocketAddr,
    log: Log,
    waker: Arc<Waker>,
    over: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl ScriptedServer {
    /// Starts a server on a free port that asks `answer` for the script of every request.
    ///
    /// # Errors
    /// When no port can be had.
    pub fn start(answer: impl Fn(&Request) -> Script + Send + 'static) -> io::Result<Self> {
        Self::start_on(SocketAddr::from(([127, 0, 0, 1], 0)), answer)
    }

    /// Starts a server on this address.
    ///
    /// # Errors
    /// When the address cannot be had.
    pub fn start_on(
        address: SocketAddr,
        answer: impl Fn(&Request) -> Script + Send + 'static,
    ) -> io::Result<Self> {
        let mut listener = listen(address)?;
        let address = listener.local_addr()?;
        let poll = Poll::new()?;
        let waker = Arc::new(Waker::new(poll.registry(), intake::WAKE)?);
        let log = Log::default();
        let over = Arc::new(AtomicBool::new(false));
        let (plays, stage) = channel();
        let (returns, returned) = channel();
        let player = Player::new(stage, returns, Arc::clone(&waker), Arc::clone(&log));
        poll.registry()
            .register(&mut listener, intake::LISTEN, Interest::READABLE)?;
        let intake = Intake::new(
            poll,
            listener,
            Box::new(answer),
            (plays, returned),
            Arc::clone(&log),
        );
        let ends = Arc::clone(&over);
        let threads = vec![
            std::thread::spawn(move || player.run()),
            std::thread::spawn(move || intake.run(&ends)),
        ];
        Ok(Self {
            address,
            log,
            waker,
            over,
            threads,
        })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Its address as clients are given it.
    pub fn base_url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Everything that happened so far, in the order in which requests were read.
    pub fn log(&self) -> Vec<Exchange> {
        locked(&self.log).clone()
    }
}

impl Drop for ScriptedServer {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        self.waker.wake().ok();
        for thread in self.threads.drain(..) {
            thread.join().ok();
        }
    }
}

/// Listens with room for thousands of connections that come at once.
fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = socket2::Socket::new(
        socket2::Domain::for_address(address),
        socket2::Type::STREAM,
        None,
    )?;
    socket.set_reuse_address(true)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(4096)?;
    Ok(TcpListener::from_std(socket.into()))
}

fn locked(log: &Log) -> MutexGuard<'_, Vec<Exchange>> {
    log.lock().unwrap_or_else(PoisonError::into_inner)
}
