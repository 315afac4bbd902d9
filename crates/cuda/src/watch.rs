//! Where the time of opening a device goes.

use std::time::{Duration, Instant};

/// Stages and how long each took; prints itself for people.
pub(crate) struct Watch {
    began: Instant,
    last: Instant,
    laps: Vec<(&'static str, Duration)>,
}

impl Watch {
    pub(crate) fn start() -> Self {
        let now = Instant::now();
        Self {
            began: now,
            last: now,
            laps: Vec::new(),
        }
    }

    /// What ended now is called `name`.
    pub(crate) fn lap(&mut self, name: &'static str) {
        let now = Instant::now();
        self.laps.push((name, now - self.last));
        self.last = now;
    }
}

impl std::fmt::Display for Watch {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "{:.2} s", (self.last - self.began).as_secs_f64())?;
        for (at, (name, time)) in self.laps.iter().enumerate() {
            let before = if at == 0 { " (" } else { ", " };
            write!(out, "{before}{name} {:.2} s", time.as_secs_f64())?;
        }
        if self.laps.is_empty() {
            Ok(())
        } else {
            write!(out, ")")
        }
    }
}
