use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::time::Duration;

use executor::DeviceLost;
use tokio::sync::watch;

use crate::handle::Shared;

/// Looks in the time that a step is given.
const LOOKS: u32 = 8;

/// What the engine thread shows of itself around each wait for a step: odd while it waits.
#[derive(Default)]
pub(crate) struct Pulse(AtomicU64);

impl Pulse {
    /// A wait begins or ends; for the engine thread alone.
    pub(crate) fn beat(&self) {
        let beats = self.0.load(Ordering::Relaxed);
        self.0.store(beats + 1, Ordering::Relaxed);
    }

    /// Which wait is going on.
    fn waiting(&self) -> Option<u64> {
        let beats = self.0.load(Ordering::Relaxed);
        (beats % 2 == 1).then_some(beats)
    }
}

/// How often one and the same wait was seen. Looks are counted, not time: a process that was stopped and goes on has
/// looked at nothing meanwhile.
#[derive(Default)]
struct Vigil {
    seen: Option<u64>,
    looks: u32,
}

impl Vigil {
    /// True when a wait has lasted for its whole time.
    fn look(&mut self, waiting: Option<u64>) -> bool {
        if waiting.is_none() || waiting != self.seen {
            *self = Self {
                seen: waiting,
                looks: 0,
            };
            return false;
        }
        self.looks += 1;
        self.looks >= LOOKS
    }
}

/// Ends serving when a step has not come back for a time; the engine thread may never be heard of again.
pub(crate) struct Watchdog {
    /// How long a step may take to come back.
    pub(crate) patience: Duration,
    pub(crate) shared: Arc<Shared>,
    pub(crate) active: watch::Sender<usize>,
    /// Where the engine's end is told.
    pub(crate) ended: Sender<Result<(), DeviceLost>>,
    /// Closed when the engine thread ends by itself.
    pub(crate) engine: Receiver<Infallible>,
}

impl Watchdog {
    pub(crate) fn run(self) {
        let mut vigil = Vigil::default();
        while self.engine.recv_timeout(self.patience / LOOKS) == Err(RecvTimeoutError::Timeout) {
            if vigil.look(self.shared.pulse.waiting()) {
                return self.give_up();
            }
        }
    }

    /// Says in the engine thread's place what it says of a lost device.
    fn give_up(self) {
        let lost = DeviceLost::because(format_args!(
            "no step has come back for {:?}",
            self.patience
        ));
        tracing::error!("{lost}");
        self.shared.fail(&lost);
        // Who started the engine may have let go of its thread.
        let _ = self.ended.send(Err(lost));
        self.active.send_replace(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_wait_that_lasts_for_all_looks_is_too_long() {
        let mut vigil = Vigil::default();
        let mut lasts = |waiting, looks: u32| (0..looks).any(|_| vigil.look(waiting));
        assert!(!lasts(None, 100), "nothing is waited for");
        assert!(!lasts(Some(1), LOOKS), "the first look is its beginning");
        assert!(!lasts(Some(3), LOOKS), "a step came back");
        assert!(!lasts(None, 1));
        assert!(!lasts(Some(5), LOOKS));
        assert!(lasts(Some(5), 1));
    }

    #[test]
    fn a_pulse_shows_each_wait_once() {
        let pulse = Pulse::default();
        assert_eq!(pulse.waiting(), None);
        pulse.beat();
        let first = pulse.waiting();
        assert!(first.is_some());
        pulse.beat();
        assert_eq!(pulse.waiting(), None);
        pulse.beat();
        assert!(pulse.waiting().is_some_and(|second| Some(second) != first));
    }
}
