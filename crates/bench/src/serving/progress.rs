//! The progress bar on standard error, as people know it from Python.

use crate::load::Onlooker;
use crate::pace::LoadState;
use crate::record::RequestRecord;
use std::io::Write;
use std::time::{Duration, Instant};

const SHORTEST_PAUSE: Duration = Duration::from_millis(100);
const CELLS: usize = 10;
/// How much the newest pace counts in the one that is shown.
const SMOOTHING: f64 = 0.3;

/// A bar that ticks once per finished request or conversation.
pub(crate) struct ProgressBar<'a> {
    out: &'a mut dyn Write,
    rounds: &'a dyn Fn(usize) -> usize,
    total: usize,
    done: usize,
    started: Instant,
    shown: Option<(Instant, usize)>,
    seconds_per_tick: Option<f64>,
}

impl<'a> ProgressBar<'a> {
    /// A bar for so many rows, zero when nobody knows; `rounds` tells how many requests a row stands for.
    pub(crate) fn new(
        out: &'a mut dyn Write,
        total: usize,
        rounds: &'a dyn Fn(usize) -> usize,
    ) -> Self {
        let mut bar = Self {
            out,
            rounds,
            total,
            done: 0,
            started: Instant::now(),
            shown: None,
            seconds_per_tick: None,
        };
        bar.show();
        bar
    }

    fn show(&mut self) {
        let now = Instant::now();
        if let Some((before, ticks)) = self.shown
            && self.done > ticks
        {
            let newest = now.duration_since(before).as_secs_f64() / (self.done - ticks) as f64;
            let known = self.seconds_per_tick.unwrap_or(newest);
            self.seconds_per_tick = Some(SMOOTHING * newest + (1.0 - SMOOTHING) * known);
        }
        self.shown = Some((now, self.done));
        let line = line(
            self.done,
            self.total,
            self.started.elapsed(),
            self.seconds_per_tick,
        );
        // A closed terminal is no reason to end a run.
        write!(self.out, "\r{line}").ok();
        self.out.flush().ok();
    }

    /// The last state, on a line that stays.
    pub(crate) fn close(self) {
        let elapsed = self.started.elapsed();
        let mean = elapsed.as_secs_f64() / self.done.max(1) as f64;
        let line = line(
            self.done,
            self.total,
            elapsed,
            (self.done > 0).then_some(mean),
        );
        writeln!(self.out, "\r{line}").ok();
        self.out.flush().ok();
    }
}

impl Onlooker for ProgressBar<'_> {
    fn finished(&mut self, record: &RequestRecord, _: &LoadState) {
        if record.round + 1 < (self.rounds)(record.row) {
            return;
        }
        self.done += 1;
        if self
            .shown
            .is_none_or(|(when, _)| when.elapsed() >= SHORTEST_PAUSE)
        {
            self.show();
        }
    }

    fn patience(&self) -> Duration {
        Duration::from_secs(1)
    }

    fn look(&mut self, _: &LoadState, _: usize) {}
}

/// Nobody looks on.
pub(super) struct Silence;

impl Onlooker for Silence {
    fn finished(&mut self, _: &RequestRecord, _: &LoadState) {}

    fn patience(&self) -> Duration {
        Duration::from_secs(1)
    }

    fn look(&mut self, _: &LoadState, _: usize) {}
}

fn line(done: usize, total: usize, elapsed: Duration, seconds_per_tick: Option<f64>) -> String {
    let share = if total == 0 {
        1.0
    } else {
        done as f64 / total as f64
    };
    let percent = (share * 100.0).round();
    let left = seconds_per_tick.map(|pace| pace * (total - done.min(total)) as f64);
    let left = left.map_or_else(|| "?".to_owned(), |left| clock(left as u64));
    let pace = match seconds_per_tick {
        None => "?it/s".to_owned(),
        Some(pace) if pace > 1.0 => format!("{pace:5.2}s/it"),
        Some(pace) => format!("{:5.2}it/s", 1.0 / pace),
    };
    let elapsed = clock(elapsed.as_secs());
    if total == 0 {
        return format!("{done}it [{elapsed}, {pace}]");
    }
    format!(
        "{percent:3}%|{}| {done}/{total} [{elapsed}<{left}, {pace}]",
        cells(share)
    )
}

fn cells(share: f64) -> String {
    const PARTS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
    let eighths = (share.clamp(0.0, 1.0) * (CELLS * 8) as f64) as usize;
    let (full, part) = (eighths / 8, PARTS[eighths % 8]);
    let used = full + usize::from(!part.is_empty());
    format!("{}{part}{}", "█".repeat(full), " ".repeat(CELLS - used))
}

fn clock(seconds: u64) -> String {
    let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    if hours > 0 {
        format!("{hours}:{minutes:02}:{seconds:02}")
    } else {
        format!("{minutes:02}:{seconds:02}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_look_as_in_the_logs_people_have() {
        let state = |done, seconds, pace| line(done, 256, Duration::from_secs(seconds), pace);
        assert_eq!(state(0, 0, None), "  0%|          | 0/256 [00:00<?, ?it/s]");
        assert_eq!(
            state(1, 34, Some(34.87)),
            "  0%|          | 1/256 [00:34<2:28:11, 34.87s/it]"
        );
        assert_eq!(
            state(33, 66, Some(1.714)),
            " 13%|█▎        | 33/256 [01:06<06:22,  1.71s/it]"
        );
        assert_eq!(
            line(9, 0, Duration::from_secs(3), Some(0.5)),
            "9it [00:03,  2.00it/s]"
        );
        assert_eq!(
            state(256, 255, Some(0.5)),
            "100%|██████████| 256/256 [04:15<00:00,  2.00it/s]"
        );
    }
}
