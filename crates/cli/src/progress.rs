//! How far a long piece of work is, on standard error: a bar on a terminal, a few lines elsewhere.

use std::io::{IsTerminal as _, Write as _, stderr};
use std::time::{Duration, Instant};

const BAR: usize = 24;
const REDRAW: Duration = Duration::from_millis(80);
/// Time between two lines of the log.
const LINE: Duration = Duration::from_secs(1);

/// Draws one bar at a time.
#[derive(Debug)]
pub(crate) struct Bar {
    terminal: bool,
    quiet: bool,
    what: String,
    total: Option<u64>,
    done: u64,
    started: Instant,
    drawn: Option<Instant>,
}

impl Bar {
    /// A bar for this process's standard error.
    pub(crate) fn new() -> Self {
        Self::on(stderr().is_terminal(), false)
    }

    /// The same; where there is no terminal, silent unless the work takes long.
    pub(crate) fn quiet() -> Self {
        Self::on(stderr().is_terminal(), true)
    }

    fn on(terminal: bool, quiet: bool) -> Self {
        Self {
            terminal,
            quiet,
            what: String::new(),
            total: None,
            done: 0,
            started: Instant::now(),
            drawn: None,
        }
    }

    /// True when the log should hear of long work that nobody sees a bar of.
    fn is_due(&self, now: Instant) -> bool {
        let last = self.drawn.unwrap_or(self.started);
        self.quiet && !self.terminal && now.duration_since(last) >= LINE
    }

    /// What comes next begins a line of its own.
    fn leave_line(&mut self) {
        if self.terminal && self.drawn.take().is_some() {
            let _ = writeln!(stderr());
        }
    }

    fn draw(&mut self, end: &str) {
        self.drawn = Some(Instant::now());
        let line = line(&self.what, self.done, self.total, self.started.elapsed());
        // A bar that cannot be drawn is no reason to stop the work.
        let _ = write!(stderr(), "\r\x1b[2K{line}{end}");
    }
}

impl hub::Progress for Bar {
    fn start(&mut self, what: &str, bytes: Option<u64>) {
        (self.what, self.total, self.done) = (what.to_owned(), bytes, 0);
        (self.started, self.drawn) = (Instant::now(), None);
        if !self.terminal && !self.quiet {
            let size = bytes
                .map(|bytes| format!(" ({})", size(bytes)))
                .unwrap_or_default();
            tracing::info!("{what}{size}");
        }
    }

    fn advance(&mut self, done: u64) {
        let moved = done != self.done || self.drawn.is_none();
        self.done = done;
        if self.terminal && moved && self.drawn.is_none_or(|drawn| drawn.elapsed() >= REDRAW) {
            self.draw("");
        } else if self.is_due(Instant::now()) {
            self.drawn = Some(Instant::now());
            let (what, amount) = (&self.what, amount(done, self.total, self.started.elapsed()));
            tracing::info!("{what}: {amount}");
        }
    }

    fn finish(&mut self) {
        if self.terminal {
            self.done = self.total.unwrap_or(self.done);
            self.draw("\n");
            self.drawn = None;
        } else if !self.quiet {
            let took = self.started.elapsed().as_secs_f64();
            tracing::info!("{} done in {took:.1} s", self.what);
        }
    }

    fn note(&mut self, message: &str) {
        self.leave_line();
        tracing::info!("{message}");
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        self.leave_line();
    }
}

fn line(what: &str, done: u64, total: Option<u64>, elapsed: Duration) -> String {
    let amount = amount(done, total, elapsed);
    let Some(total) = total.filter(|total| *total > 0) else {
        return format!("{what} {amount}");
    };
    let filled = (share(done, total) * BAR as f64) as usize;
    let bar = format!("{}{}", "#".repeat(filled), ".".repeat(BAR - filled));
    format!("{what} [{bar}] {amount}")
}

/// How much is done, of how much, and how fast.
fn amount(done: u64, total: Option<u64>, elapsed: Duration) -> String {
    let rate = rate(done, elapsed);
    match total.filter(|total| *total > 0) {
        None => format!("{} {rate}", size(done)),
        Some(total) => format!(
            "{:3.0}% {} of {} {rate}",
            share(done, total) * 100.0,
            size(done),
            size(total)
        ),
    }
}

fn share(done: u64, total: u64) -> f64 {
    (done as f64 / total as f64).min(1.0)
}

/// Bytes a second for people.
pub(crate) fn rate(bytes: u64, elapsed: Duration) -> String {
    let rate = bytes as f64 / elapsed.as_secs_f64().max(1e-3);
    format!("{}/s", size(rate as u64))
}

/// Bytes for people: decimal units, as download tools use.
pub(crate) fn size(bytes: u64) -> String {
    let units = [(1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB")];
    let unit = units.iter().find(|(unit, _)| bytes as f64 >= *unit);
    unit.map_or_else(
        || format!("{bytes} B"),
        |(unit, name)| format!("{:.1} {name}", bytes as f64 / unit),
    )
}

/// A number for people: `134.5 M`.
pub(crate) fn count(number: usize) -> String {
    let units = [(1e12, "T"), (1e9, "B"), (1e6, "M"), (1e3, "k")];
    let unit = units.iter().find(|(unit, _)| number as f64 >= *unit);
    unit.map_or_else(
        || number.to_string(),
        |(unit, name)| format!("{:.1} {name}", number as f64 / unit),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_terminal_only_long_work_is_told_and_once_a_second() {
        let mut bar = Bar::on(false, true);
        let after = |millis| bar.started + Duration::from_millis(millis);
        let (early, late, later) = (after(900), after(1100), after(2000));
        assert!(!bar.is_due(early) && bar.is_due(late));
        bar.drawn = Some(late);
        assert!(!bar.is_due(later) && bar.is_due(late + LINE));
    }

    #[test]
    fn a_line_tells_share_size_and_rate() {
        let second = Duration::from_secs(1);
        let cases = [
            (
                0,
                Some(100),
                "x [........................]   0% 0 B of 100 B 0 B/s",
            ),
            (
                50_000,
                Some(100_000),
                "x [############............]  50% 50.0 kB of 100.0 kB 50.0 kB/s",
            ),
            (
                200,
                Some(100),
                "x [########################] 100% 200 B of 100 B 200 B/s",
            ),
            (1_500_000, None, "x 1.5 MB 1.5 MB/s"),
            (7, Some(0), "x 7 B 7 B/s"),
        ];
        for (done, total, expected) in cases {
            assert_eq!(line("x", done, total, second), expected);
        }
    }
}
