use std::fmt;
use std::str::Utf8Error;

use bytes::{Buf, Bytes, BytesMut};

/// An event longer than this is taken for an attack or a broken server.
const DEFAULT_LIMIT: usize = 256 << 20;

const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// One event of a stream.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Event {
    /// The `data:` lines, joined by line feeds; shares the memory of the received bytes when
    /// there was one line that arrived in one piece.
    pub data: Bytes,
    /// The `event:` line, empty when there was none.
    pub name: Bytes,
}

impl Event {
    /// Whether this is the `[DONE]` that ends a stream.
    pub fn is_done(&self) -> bool {
        self.data.trim_ascii() == super::DONE.as_bytes()
    }

    /// The data as text.
    pub fn text(&self) -> Result<&str, Utf8Error> {
        std::str::from_utf8(&self.data)
    }
}

/// An event grew past the decoder's limit; nothing can be decoded after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventTooLong {
    /// Most bytes an event may have.
    pub limit: usize,
}

impl fmt::Display for EventTooLong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a server-sent event is longer than {} bytes", self.limit)
    }
}

impl std::error::Error for EventTooLong {}

/// Bytes in, events out, wherever the bytes were cut.
///
/// Lines may end in LF, CRLF or CR; comments, `id:` and `retry:` are skipped; an event without data
/// is none. Give it a chunk with [`push`](Self::push), then take events until there are no more.
#[derive(Debug)]
pub struct Decoder {
    chunk: Bytes,
    /// The beginning of a line whose end has not arrived.
    partial: BytesMut,
    data: Option<Data>,
    name: Bytes,
    limit: usize,
    /// The last byte was a CR: an LF that follows belongs to it.
    after_cr: bool,
    at_start: bool,
}

#[derive(Debug)]
enum Data {
    Line(Bytes),
    Lines(BytesMut),
}

impl Data {
    fn len(&self) -> usize {
        match self {
            Self::Line(line) => line.len(),
            Self::Lines(lines) => lines.len(),
        }
    }

    fn join(self, line: &[u8]) -> Self {
        let mut lines = match self {
            Self::Line(first) => BytesMut::from(&first[..]),
            Self::Lines(lines) => lines,
        };
        lines.extend_from_slice(b"\n");
        lines.extend_from_slice(line);
        Self::Lines(lines)
    }

    fn into_bytes(self) -> Bytes {
        match self {
            Self::Line(line) => line,
            Self::Lines(lines) => lines.freeze(),
        }
    }
}

impl Default for Decoder {
    fn default() -> Self {
        Self::with_limit(DEFAULT_LIMIT)
    }
}

impl Decoder {
    /// A decoder that refuses events of more than `limit` bytes.
    pub fn with_limit(limit: usize) -> Self {
        Self {
            chunk: Bytes::new(),
            partial: BytesMut::new(),
            data: None,
            name: Bytes::new(),
            limit,
            after_cr: false,
            at_start: true,
        }
    }

    /// Gives the next bytes of the stream.
    ///
    /// Events of the chunk before must have been taken; what was left of them is decoded first.
    pub fn push(&mut self, chunk: Bytes) {
        if self.chunk.is_empty() {
            self.chunk = chunk;
        } else {
            let mut joined = BytesMut::with_capacity(self.chunk.len() + chunk.len());
            joined.extend_from_slice(&self.chunk);
            joined.extend_from_slice(&chunk);
            self.chunk = joined.freeze();
        }
    }

    /// The next whole event, or `None` until more bytes arrive.
    pub fn next_event(&mut self) -> Result<Option<Event>, EventTooLong> {
        while let Some(line) = self.next_line()? {
            if line.is_empty() {
                if let Some(event) = self.take_event() {
                    return Ok(Some(event));
                }
            } else {
                self.take_line(line)?;
            }
        }
        Ok(None)
    }

    /// The event that the end of the stream cut short, if its data is there.
    ///
    /// The standard drops it; servers that forget the last empty line are common enough.
    pub fn finish(mut self) -> Result<Option<Event>, EventTooLong> {
        if let Some(event) = self.next_event()? {
            return Ok(Some(event));
        }
        let line = std::mem::take(&mut self.partial).freeze();
        if !line.is_empty() {
            self.take_line(line)?;
        }
        Ok(self.take_event())
    }

    fn take_event(&mut self) -> Option<Event> {
        let name = std::mem::take(&mut self.name);
        let data = self.data.take()?.into_bytes();
        Some(Event { data, name })
    }

    /// The next line without its end; `None` when the chunk holds no whole line.
    fn next_line(&mut self) -> Result<Option<Bytes>, EventTooLong> {
        if self.after_cr && !self.chunk.is_empty() {
            self.after_cr = false;
            if self.chunk[0] == b'\n' {
                self.chunk.advance(1);
            }
        }
        let Some(end) = self
            .chunk
            .iter()
            .position(|&byte| byte == b'\n' || byte == b'\r')
        else {
            self.check_length(self.partial.len() + self.chunk.len())?;
            self.partial.extend_from_slice(&self.chunk);
            self.chunk = Bytes::new();
            return Ok(None);
        };
        // As long as it would have been refused, had it come in pieces.
        self.check_length(self.partial.len() + end)?;
        self.after_cr = self.chunk[end] == b'\r';
        let tail = self.chunk.split_to(end);
        self.chunk.advance(1);
        let mut line = if self.partial.is_empty() {
            tail
        } else {
            self.partial.extend_from_slice(&tail);
            std::mem::take(&mut self.partial).freeze()
        };
        if std::mem::take(&mut self.at_start) && line.starts_with(BYTE_ORDER_MARK) {
            line.advance(BYTE_ORDER_MARK.len());
        }
        Ok(Some(line))
    }

    fn take_line(&mut self, mut line: Bytes) -> Result<(), EventTooLong> {
        let colon = line
            .iter()
            .position(|&byte| byte == b':')
            .unwrap_or(line.len());
        let field = line.split_to(colon);
        if !line.is_empty() {
            line.advance(1);
        }
        if line.first() == Some(&b' ') {
            line.advance(1);
        }
        match &field[..] {
            b"data" => {
                let before = self.data.as_ref().map_or(0, Data::len);
                self.check_length(before + line.len())?;
                self.data = Some(match self.data.take() {
                    None => Data::Line(line),
                    Some(data) => data.join(&line),
                });
            }
            b"event" => self.name = line,
            _ => {}
        }
        Ok(())
    }

    fn check_length(&self, length: usize) -> Result<(), EventTooLong> {
        if length > self.limit {
            Err(EventTooLong { limit: self.limit })
        } else {
            Ok(())
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn decode_pieces<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> Vec<String> {
        let mut decoder = Decoder::default();
        let mut events = Vec::new();
        for piece in pieces {
            decoder.push(Bytes::copy_from_slice(piece));
            while let Some(event) = decoder.next_event().unwrap() {
                events.push(event.text().unwrap().to_owned());
            }
        }
        if let Some(event) = decoder.finish().unwrap() {
            events.push(format!("cut: {}", event.text().unwrap()));
        }
        events
    }

    fn decode(stream: &str) -> Vec<String> {
        decode_pieces([stream.as_bytes()])
    }

    #[test]
    fn streams_become_events() {
        let cases: &[(&str, &[&str])] = &[
            ("data: a\n\ndata: b\n\n", &["a", "b"]),
            ("data: a\r\n\r\ndata: b\r\n\r\n", &["a", "b"]),
            ("data: a\r\rdata: b\r\r", &["a", "b"]),
            ("data:a\n\ndata:  b\n\n", &["a", " b"]),
            (": comment\n\ndata: a\n: other\n\n", &["a"]),
            ("data: a\ndata: b\ndata\n\n", &["a\nb\n"]),
            ("event: x\nid: 1\nretry: 2\ndata: a\n\n", &["a"]),
            ("event: x\n\ndata: a\n\n", &["a"]),
            ("\u{feff}data: a\n\n", &["a"]),
            ("\n\n\ndata: a\n\n\n\n", &["a"]),
            ("data: a\n\ndata: b", &["a", "cut: b"]),
            ("data: a\n\ndata: b\n", &["a", "cut: b"]),
            ("data\n\n", &[""]),
            ("unknown: a\nnonsense\n\n", &[]),
            ("", &[]),
        ];
        for (stream, expected) in cases {
            assert_eq!(decode(stream), *expected, "{stream:?}");
        }
    }

    #[test]
    fn an_event_in_one_piece_is_not_copied() {
        let chunk = Bytes::from_static(b"data: {\"text\":1}\n\ndata: [DONE]\n\n");
        let mut decoder = Decoder::default();
        decoder.push(chunk.clone());
        let event = decoder.next_event().unwrap().unwrap();
        assert_eq!(event.data.as_ptr(), chunk[6..].as_ptr());
        assert!(!event.is_done());
        assert!(decoder.next_event().unwrap().unwrap().is_done());
        assert_eq!(decoder.next_event().unwrap(), None);
    }

    #[test]
    fn the_name_of_an_event_is_kept_for_it_alone() {
        let mut decoder = Decoder::default();
        decoder.push(Bytes::from_static(b"event: error\ndata: a\n\ndata: b\n\n"));
        assert_eq!(&decoder.next_event().unwrap().unwrap().name[..], b"error");
        assert_eq!(&decoder.next_event().unwrap().unwrap().name[..], b"");
    }

    #[test]
    fn an_endless_event_is_refused() {
        let limit = 16;
        for stream in [
            &b"data: aaaaaaaaaaaaaaaaaaaaaaaa"[..],
            b"data: aaaaaaaa\ndata: aaaaaaaaa\n",
        ] {
            let mut decoder = Decoder::with_limit(limit);
            decoder.push(Bytes::copy_from_slice(stream));
            assert_eq!(decoder.next_event(), Err(EventTooLong { limit }));
        }
    }

    #[test]
    fn a_line_over_the_limit_is_refused_wherever_it_was_cut() {
        let limit = 16;
        for stream in [
            &b"data: aaaaaaaaaaa\n\n"[..],
            b": aaaaaaaaaaaaaaaa\ndata: b\n\n",
            b"data: a\n\nevent: aaaaaaaaaaaaa\n",
        ] {
            for cut in 1..=stream.len() {
                let mut decoder = Decoder::with_limit(limit);
                let refused = stream.chunks(cut).any(|piece| {
                    decoder.push(Bytes::copy_from_slice(piece));
                    loop {
                        match decoder.next_event() {
                            Ok(Some(_)) => {}
                            Ok(None) => break false,
                            Err(_) => break true,
                        }
                    }
                });
                assert!(refused, "cut after every {cut} bytes");
            }
        }
    }

    #[test]
    fn a_character_split_between_chunks_is_whole_again() {
        let stream = "data: {\"text\":\"héé 😀\"}\n\n".as_bytes();
        for cut in 0..=stream.len() {
            let events = decode_pieces([&stream[..cut], &stream[cut..]]);
            assert_eq!(events, ["{\"text\":\"héé 😀\"}"], "cut at {cut}");
        }
    }

    proptest! {
        #[test]
        fn where_the_bytes_were_cut_does_not_matter(
            lines in prop::collection::vec("(data: ?|data|: |event: )[aé:😀]{0,4}(\n|\r\n|\r)(\n|\r\n|\r)?", 0..12),
            cuts in prop::collection::vec(0usize..200, 0..8),
        ) {
            let stream = lines.concat().into_bytes();
            let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(stream.len())).collect();
            cuts.extend([0, stream.len()]);
            cuts.sort_unstable();
            let pieces = cuts.windows(2).map(|pair| &stream[pair[0]..pair[1]]);
            prop_assert_eq!(decode_pieces(pieces), decode_pieces([&stream[..]]));
        }

        #[test]
        fn what_was_written_is_read_back(data in prop::collection::vec("[a-zé😀 \n]{0,20}", 0..6)) {
            let mut stream = Vec::new();
            for text in &data {
                super::super::write_event(&mut stream, text);
            }
            prop_assert_eq!(decode_pieces([&stream[..]]), data);
        }

        #[test]
        fn garbage_never_panics(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            let mut decoder = Decoder::default();
            decoder.push(Bytes::from(bytes));
            while decoder.next_event().unwrap().is_some() {}
            decoder.finish().unwrap();
        }
    }
}
