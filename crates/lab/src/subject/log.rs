//! What a process prints, kept up to a limit.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Read, Write};
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// A line longer than this is cut into several.
const LONGEST_LINE: usize = 16 << 10;
/// Lines that are kept in memory, with their times.
const RECENT: usize = 400;

/// A log: its beginning goes to a file as it comes, its end is kept and added when it is closed.
#[derive(Debug, Clone)]
pub(crate) struct Log {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    news: Condvar,
}

#[derive(Debug)]
struct State {
    stamps: Stamps,
    file: Option<File>,
    started: Instant,
    /// Bytes that may still go to the file at once.
    room: u64,
    /// The end of a log that is longer than that.
    tail: VecDeque<u8>,
    tail_limit: usize,
    left_out: u64,
    recent: VecDeque<Line>,
    awaited: Option<String>,
    seen: bool,
    /// Streams that are still open.
    open: usize,
}

/// Whether lines are written with their times.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stamps {
    /// In seconds since the process was started.
    Seconds,
    /// As they came.
    None,
}

/// A line and when it came.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Line {
    /// Seconds since the process was started.
    pub(crate) after: f64,
    /// The line.
    pub(crate) text: String,
}

impl Log {
    /// A log in a file of at most `limit` bytes, watched for a line that contains `awaited`.
    pub(crate) fn create(
        path: &Path,
        limit: u64,
        awaited: Option<&str>,
        stamps: Stamps,
    ) -> io::Result<Self> {
        let state = State {
            stamps,
            file: Some(File::create(path)?),
            started: Instant::now(),
            room: limit / 2,
            tail: VecDeque::new(),
            tail_limit: (limit / 2) as usize,
            left_out: 0,
            recent: VecDeque::new(),
            awaited: awaited.map(str::to_owned),
            seen: false,
            open: 0,
        };
        Ok(Self {
            shared: Arc::new(Shared {
                state: Mutex::new(state),
                news: Condvar::new(),
            }),
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.shared
            .state
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes in a stream until it ends, on a thread of its own.
    pub(crate) fn follow(&self, mut stream: impl Read + Send + 'static) {
        self.state().open += 1;
        let log = self.clone();
        std::thread::spawn(move || {
            let mut buffer = vec![0; 64 << 10];
            let mut line = Vec::new();
            loop {
                match stream.read(&mut buffer) {
                    Ok(0) => break,
                    Ok(length) => log.take_in(&buffer[..length], &mut line),
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    Err(_) => break,
                }
            }
            let mut state = log.state();
            state.end_line(&mut line);
            state.open -= 1;
            drop(state);
            log.shared.news.notify_all();
        });
    }

    fn take_in(&self, bytes: &[u8], line: &mut Vec<u8>) {
        let mut state = self.state();
        for part in bytes.split_inclusive(|byte| *byte == b'\n') {
            line.extend_from_slice(part);
            if line.ends_with(b"\n") || line.len() >= LONGEST_LINE {
                state.end_line(line);
            }
        }
        drop(state);
        self.shared.news.notify_all();
    }

    /// Waits for news, at most this long.
    pub(crate) fn wait(&self, longest: Duration) {
        let state = self.state();
        // whatever woke us, the caller looks again
        drop(self.shared.news.wait_timeout(state, longest));
    }

    /// Whether the awaited line has come; without one there is nothing to wait for.
    pub(crate) fn has_awaited(&self) -> bool {
        let state = self.state();
        state.awaited.is_none() || state.seen
    }

    /// Whether every stream has ended.
    pub(crate) fn ended(&self) -> bool {
        self.state().open == 0
    }

    /// The last lines.
    pub(crate) fn last_lines(&self, count: usize) -> Vec<String> {
        let state = self.state();
        let surplus = state.recent.len().saturating_sub(count);
        state
            .recent
            .iter()
            .skip(surplus)
            .map(|line| line.text.clone())
            .collect()
    }

    /// The lines of a stretch of time, in seconds since the process was started.
    pub(crate) fn lines_between(&self, from: f64, to: f64) -> Vec<Line> {
        let state = self.state();
        let lines = state
            .recent
            .iter()
            .filter(|line| line.after >= from && line.after <= to);
        lines.cloned().collect()
    }

    /// When the log began.
    pub(crate) fn started(&self) -> Instant {
        self.state().started
    }

    /// Writes the end of the log; how many bytes between beginning and end were left out.
    pub(crate) fn close(&self) -> u64 {
        let mut state = self.state();
        let left_out = state.left_out;
        if let Some(mut file) = state.file.take() {
            if left_out > 0 {
                writeln!(file, "… {left_out} bytes left out …").ok();
            }
            let (front, back) = state.tail.as_slices();
            file.write_all(front)
                .and_then(|()| file.write_all(back))
                .ok();
            file.flush().ok();
        }
        left_out
    }
}

impl State {
    fn end_line(&mut self, line: &mut Vec<u8>) {
        if line.is_empty() {
            return;
        }
        let text = String::from_utf8_lossy(line).trim_end().to_owned();
        line.clear();
        if let Some(awaited) = &self.awaited {
            self.seen |= text.contains(awaited.as_str());
        }
        let after = self.started.elapsed().as_secs_f64();
        let written = match self.stamps {
            Stamps::Seconds => format!("[{after:9.3}] {text}\n"),
            Stamps::None => format!("{text}\n"),
        };
        self.keep(written.as_bytes());
        if self.recent.len() == RECENT {
            self.recent.pop_front();
        }
        self.recent.push_back(Line { after, text });
    }

    fn keep(&mut self, bytes: &[u8]) {
        let length = bytes.len() as u64;
        if self.room >= length && self.tail.is_empty() {
            self.room -= length;
            if let Some(file) = &mut self.file {
                // a full disk must not stop the server that prints
                file.write_all(bytes).ok();
            }
            return;
        }
        self.tail.extend(bytes);
        let surplus = self.tail.len().saturating_sub(self.tail_limit);
        self.tail.drain(..surplus);
        self.left_out += surplus as u64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn followed(text: Vec<u8>, limit: u64, awaited: Option<&str>) -> (Log, String, u64) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let log = Log::create(&path, limit, awaited, Stamps::Seconds).unwrap();
        log.follow(io::Cursor::new(text));
        while !log.ended() {
            log.wait(Duration::from_secs(1));
        }
        let left_out = log.close();
        (log, std::fs::read_to_string(path).unwrap(), left_out)
    }

    #[test]
    fn lines_are_kept_with_their_times_and_the_awaited_one_is_seen() {
        let (log, kept, left_out) =
            followed(b"one\ntwo ready\nthree".to_vec(), 10_000, Some("ready"));
        assert!(log.has_awaited());
        assert_eq!(left_out, 0);
        let texts: Vec<&str> = kept
            .lines()
            .filter_map(|line| line.split("] ").nth(1))
            .collect();
        assert_eq!(texts, ["one", "two ready", "three"]);
        assert_eq!(log.last_lines(2), ["two ready", "three"]);
        assert_eq!(log.lines_between(0.0, 60.0).len(), 3);
        assert!(log.lines_between(60.0, 61.0).is_empty());
    }

    #[test]
    fn a_flood_is_cut_in_the_middle() {
        let flood: Vec<u8> = (0..20_000)
            .flat_map(|at| format!("line {at}\n").into_bytes())
            .collect();
        let (log, kept, left_out) = followed(flood, 4000, Some("never"));
        assert!(!log.has_awaited());
        assert!(kept.len() < 4200, "{}", kept.len());
        assert!(kept.contains("line 0\n") && kept.ends_with("line 19999\n"));
        assert!(kept.contains(&format!("… {left_out} bytes left out …")));
    }

    #[test]
    fn a_line_without_an_end_is_cut() {
        let (log, _, _) = followed(vec![b'x'; 100_000], 1 << 20, None);
        assert!(log.has_awaited(), "nothing is awaited");
        assert!(log.last_lines(10).iter().all(|line| line.len() <= 64 << 10));
    }
}
