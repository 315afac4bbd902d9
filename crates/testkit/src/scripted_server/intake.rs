//! Accepting connections and reading requests.

use super::player::Play;
use super::{Exchange, Log, Request, Script, locked};
use mio::net::{TcpListener, TcpStream};
use mio::{Events, Interest, Poll, Token};
use std::collections::BTreeMap;
use std::io::{ErrorKind, Read};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender};
use std::time::Instant;

pub(super) const WAKE: Token = Token(usize::MAX);
pub(super) const LISTEN: Token = Token(usize::MAX - 1);

type Answerer = Box<dyn Fn(&Request) -> Script + Send>;

pub(super) struct Intake {
    poll: Poll,
    listener: TcpListener,
    answer: Answerer,
    plays: Sender<Play>,
    /// Connections whose script is over.
    returned: Receiver<TcpStream>,
    log: Log,
    readers: BTreeMap<usize, Reader>,
    next_token: usize,
}

struct Reader {
    stream: TcpStream,
    bytes: Vec<u8>,
}

impl Intake {
    pub(super) fn new(
        poll: Poll,
        listener: TcpListener,
        answer: Answerer,
        (plays, returned): (Sender<Play>, Receiver<TcpStream>),
        log: Log,
    ) -> Self {
        let readers = BTreeMap::new();
        Self {
            poll,
            listener,
            answer,
            plays,
            returned,
            log,
            readers,
            next_token: 0,
        }
    }

    pub(super) fn run(mut self, over: &AtomicBool) {
        let mut events = Events::with_capacity(1024);
        loop {
            if self.poll.poll(&mut events, None).is_err() {
                continue;
            }
            if over.load(Ordering::Relaxed) {
                return;
            }
            for event in &events {
                match event.token() {
                    WAKE => {}
                    LISTEN => self.accept(),
                    Token(token) => self.read(token),
                }
            }
            while let Ok(stream) = self.returned.try_recv() {
                self.take_in(stream);
            }
        }
    }

    fn accept(&mut self) {
        while let Ok((stream, _)) = self.listener.accept() {
            stream.set_nodelay(true).ok();
            self.take_in(stream);
        }
    }

    fn take_in(&mut self, mut stream: TcpStream) {
        let token = self.next_token;
        self.next_token += 1;
        let registry = self.poll.registry();
        if registry
            .register(&mut stream, Token(token), Interest::READABLE)
            .is_ok()
        {
            self.readers.insert(
                token,
                Reader {
                    stream,
                    bytes: Vec::new(),
                },
            );
            self.read(token);
        }
    }

    fn read(&mut self, token: usize) {
        let Some(reader) = self.readers.get_mut(&token) else {
            return;
        };
        let mut buffer = [0; 16 * 1024];
        let closed = loop {
            match reader.stream.read(&mut buffer) {
                Ok(0) => break true,
                Ok(length) => reader.bytes.extend_from_slice(&buffer[..length]),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => break error.kind() != ErrorKind::WouldBlock,
            }
        };
        let number = locked(&self.log).len();
        if let Some(request) = Request::take(&mut reader.bytes, number) {
            let received = Instant::now();
            let script = (self.answer)(&request);
            locked(&self.log).push(Exchange {
                request,
                received,
                sends: Vec::new(),
            });
            let reader = self
                .readers
                .remove(&token)
                .expect("the reader was just used");
            let mut stream = reader.stream;
            self.poll.registry().deregister(&mut stream).ok();
            self.plays
                .send(Play {
                    stream,
                    script,
                    number,
                    received,
                })
                .ok();
        } else if closed {
            self.readers.remove(&token);
        }
    }
}
