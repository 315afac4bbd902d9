//! The least a client of streams can do: it opens connections, sends requests and throws away what comes.
//!
//! `bare-reader PORT PATH BODY STREAMS REQUESTS NAP_US`
//!
//! What it costs is what the kernel takes to hand over the bytes, so no client that reads every
//! token when it comes can cost less. Its seconds are printed; it keeps nothing else.

use mio::net::TcpStream;
use mio::{Events, Interest, Poll, Token};
use std::io::{self, ErrorKind, Read, Write};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

/// The last chunk of an answer.
const END: &[u8; 5] = b"0\r\n\r\n";

struct Reader {
    poll: Poll,
    address: SocketAddr,
    request: Vec<u8>,
    places: Vec<Option<Exchange>>,
    /// Requests that are still to be sent.
    left: usize,
    under_way: usize,
}

struct Exchange {
    stream: TcpStream,
    is_sent: bool,
    /// The newest bytes, among which the end is looked for.
    tail: [u8; END.len()],
}

impl Reader {
    /// Sends the next request, if there is one.
    fn begin(&mut self, place: usize) -> io::Result<()> {
        self.places[place] = None;
        if self.left == 0 {
            return Ok(());
        }
        let mut stream = TcpStream::connect(self.address)?;
        stream.set_nodelay(true)?;
        let both = Interest::READABLE | Interest::WRITABLE;
        self.poll
            .registry()
            .register(&mut stream, Token(place), both)?;
        self.places[place] = Some(Exchange {
            stream,
            is_sent: false,
            tail: *b"     ",
        });
        self.left -= 1;
        self.under_way += 1;
        Ok(())
    }

    /// Carries on at a place where something happened.
    fn ready(&mut self, place: usize, buffer: &mut [u8]) -> io::Result<()> {
        let Some(exchange) = &mut self.places[place] else {
            return Ok(());
        };
        if !exchange.is_sent {
            match exchange.stream.write(&self.request) {
                Ok(written) if written == self.request.len() => exchange.is_sent = true,
                Ok(_) => return Err(io::Error::other("a request does not fit the send buffer")),
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
            return Ok(());
        }
        if exchange.is_over(buffer)? {
            self.under_way -= 1;
            self.begin(place)?;
        }
        Ok(())
    }

    fn run(&mut self, nap: Duration) -> io::Result<()> {
        let mut events = Events::with_capacity(1024);
        let mut buffer = vec![0; 256 * 1024];
        for place in 0..self.places.len() {
            self.begin(place)?;
        }
        while self.under_way > 0 {
            self.poll.poll(&mut events, None)?;
            for event in &events {
                self.ready(event.token().0, &mut buffer)?;
            }
            if !nap.is_zero() {
                std::thread::park_timeout(nap);
            }
        }
        Ok(())
    }
}

impl Exchange {
    /// Throws away what came; whether that was the end of the answer.
    fn is_over(&mut self, buffer: &mut [u8]) -> io::Result<bool> {
        loop {
            let length = match self.stream.read(buffer) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(length) => length,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
                Err(error) => return Err(error),
            };
            let new = length.min(END.len());
            self.tail.rotate_left(new);
            self.tail[END.len() - new..].copy_from_slice(&buffer[length - new..length]);
            if self.tail == *END {
                return Ok(true);
            }
            if length < buffer.len() {
                return Ok(false);
            }
        }
    }
}

fn main() -> io::Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [port, path, body, numbers @ ..] = words.as_slice() else {
        return Err(io::Error::other(
            "usage: bare-reader PORT PATH BODY STREAMS REQUESTS NAP_US",
        ));
    };
    let number = |place: usize| numbers.get(place).and_then(|word| word.parse::<u32>().ok());
    let streams = number(0).unwrap_or(1) as usize;
    let nap = Duration::from_micros(number(2).unwrap_or(0).into());
    let head = format!(
        "POST {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Type: application/json\r\n\
         Content-Length: {}\r\n\r\n",
        body.len()
    );
    let port: u16 = port.parse().map_err(io::Error::other)?;
    let mut reader = Reader {
        poll: Poll::new()?,
        address: SocketAddr::from(([127, 0, 0, 1], port)),
        request: (head + body).into_bytes(),
        places: (0..streams).map(|_| None).collect(),
        left: number(1).unwrap_or(1) as usize,
        under_way: 0,
    };
    let start = Instant::now();
    reader.run(nap)?;
    writeln!(io::stdout(), "{}", start.elapsed().as_secs_f64())
}
