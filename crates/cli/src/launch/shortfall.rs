//! Memory that was not there after all, and what to do about it.

use executor::DeviceLost;
use ops::DeviceError;

use super::Budget;
use crate::progress::size;

/// How the driver and the device say that memory is short where an error is only text any more.
const OUT_OF_MEMORY: [&str; 2] = ["CUDA_ERROR_OUT_OF_MEMORY", " were asked, "];
const UNTOLD: &str = "the driver does not say how much is missing";
const OTHERS: &str = "stop what else uses the device";
const HOST: &str = "stop what else uses the host's memory, raise what it lets a process lock (ulimit -l, the container's limits), \
                    or lower --max-running-requests";

/// Memory that a device did not have, with the difference as far as anybody knows it, and the knob.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub(crate) enum Shortfall {
    /// Something of known size did not fit.
    #[error(
        "{device}: {} for {what} were asked, {} are free{}; {advice}",
        size(*.wanted as u64),
        size(*.free as u64),
        lacking(*.wanted, *.free)
    )]
    Known {
        /// Which device.
        device: String,
        /// What the memory was for.
        what: &'static str,
        /// Bytes asked.
        wanted: usize,
        /// Bytes there are.
        free: usize,
        /// What to do.
        advice: String,
    },
    /// The driver had too little for itself.
    #[error("memory is short: {said}; {UNTOLD}; {advice}")]
    Untold {
        /// What it was doing, and its words.
        said: String,
        /// What to do.
        advice: String,
    },
    /// Captured steps did not all fit.
    #[error("memory is short for captured steps: {captures}; {advice}")]
    Captures {
        /// How far that came.
        captures: Captures,
        /// What to do.
        advice: String,
    },
}

/// By how much memory is short; nothing where a limit of another kind forbids what is free.
fn lacking(wanted: usize, free: usize) -> String {
    match wanted.saturating_sub(free) {
        0 => String::new(),
        short => format!(", {} too little", size(short as u64)),
    }
}

/// How far capturing came before memory was short; all sizes are about alike.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Captures {
    /// Sizes that were to be captured.
    pub(crate) wanted: usize,
    /// Those that were.
    pub(crate) done: usize,
    /// Bytes that were free before, and when memory was short.
    pub(crate) before: usize,
    pub(crate) left: usize,
}

impl Captures {
    /// Bytes that the others need by what these took, where that says why they did not fit.
    fn rest(&self) -> Option<usize> {
        let taken = self.before.saturating_sub(self.left);
        let rest = taken
            .checked_div(self.done)?
            .saturating_mul(self.wanted - self.done);
        (rest > self.left).then_some(rest)
    }
}

impl std::fmt::Display for Captures {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let told = |bytes: usize| size(bytes as u64);
        let taken = told(self.before.saturating_sub(self.left));
        let (done, wanted, left) = (self.done, self.wanted, told(self.left));
        write!(out, "{done} of {wanted} took {taken}, {left} are free, ")?;
        match self.rest() {
            Some(rest) => {
                let short = told(rest - self.left);
                let rest = told(rest);
                write!(out, "the others need about {rest}, {short} too little")
            }
            None => write!(out, "too little for the next; {UNTOLD}"),
        }
    }
}

impl Shortfall {
    /// From what went wrong when a device was opened; `None` where that was not memory.
    pub(crate) fn opening(error: &DeviceError) -> Option<Self> {
        Self::of(error, |_| {
            format!("{OTHERS}, or name another one in CUDA_VISIBLE_DEVICES")
        })
    }

    /// The same while weights are loaded: nothing is taken for the cache yet.
    pub(crate) fn loading(error: &DeviceError, budget: &Budget) -> Option<Self> {
        let smaller = budget.smaller;
        Self::of(error, |what| match what {
            Some("bf12 weights") => "give --fold-weights off".to_owned(),
            Some("GEMM autotuning") => {
                format!("lower --chunked-prefill-size, or {OTHERS}, or {smaller}")
            }
            _ => format!("{OTHERS}, or {smaller}"),
        })
    }

    /// The same while work space, a cache of so many tokens and tables are taken.
    pub(crate) fn serving(error: &DeviceError, budget: &Budget, tokens: usize) -> Option<Self> {
        let fraction = budget.fraction;
        // A cache that is smaller than what fits, by more than whole pages are, does not follow the fraction.
        let by_fraction = if tokens < budget.tokens - budget.tokens / 100 {
            String::new()
        } else {
            format!("--mem-fraction-static below {fraction} or ")
        };
        Self::of(error, |what| match what {
            Some("keys and values") => {
                format!("lower {by_fraction}--max-total-tokens below {tokens}")
            }
            Some("scratch") => format!(
                "lower --chunked-prefill-size, --max-running-requests or --mem-fraction-static below {fraction}"
            ),
            _ => format!("lower --mem-fraction-static below {fraction}, or {OTHERS}"),
        })
    }

    /// The same while steps are captured.
    pub(crate) fn capturing(
        lost: &DeviceLost,
        captures: Captures,
        budget: &Budget,
        fewer: &str,
    ) -> Option<Self> {
        is_memory(&lost.message).then(|| Self::Captures {
            captures,
            advice: format!(
                "{fewer}, or lower --mem-fraction-static below {}, or {OTHERS}, or give \
                 --disable-cuda-graph",
                budget.fraction
            ),
        })
    }

    fn of(error: &DeviceError, advise: impl Fn(Option<&str>) -> String) -> Option<Self> {
        match error {
            DeviceError::OutOfMemory {
                device,
                what,
                wanted,
                free,
            } => Some(Self::Known {
                device: device.clone(),
                what,
                wanted: *wanted,
                free: *free,
                advice: match *what {
                    "pinned memory" => HOST.to_owned(),
                    _ => advise(Some(what)),
                },
            }),
            DeviceError::Lost { message, .. } if is_memory(message) => Some(Self::Untold {
                said: message.clone(),
                advice: advise(None),
            }),
            DeviceError::Lost { .. } | DeviceError::UnsupportedWeight { .. } => None,
        }
    }
}

fn is_memory(message: &str) -> bool {
    OUT_OF_MEMORY.iter().any(|words| message.contains(words))
}

#[cfg(test)]
mod tests {
    use super::*;

    const GB: usize = 1_000_000_000;
    const SMALLER: &str = "take a smaller model";
    const FEWER: &str = "name fewer row counts in --cuda-graph-bs";

    fn budget() -> Budget {
        Budget {
            fraction: 0.9,
            given: 85 * GB,
            weights: 20 * GB,
            folded: 0,
            work: GB,
            token: 1000,
            tokens: 65_000_000,
            smaller: SMALLER,
        }
    }

    fn short(what: &'static str) -> DeviceError {
        DeviceError::OutOfMemory {
            device: "a GPU".into(),
            what,
            wanted: 65 * GB,
            free: 40 * GB,
        }
    }

    fn lost(message: &str) -> DeviceError {
        DeviceError::Lost {
            device: "cuda".into(),
            message: message.into(),
        }
    }

    #[test]
    fn memory_that_is_short_is_told_with_the_difference_and_a_knob_that_helps_then() {
        let budget = budget();
        let cases = [
            (
                Shortfall::opening(&short("copies")),
                "stop what else uses the device, or name another one in CUDA_VISIBLE_DEVICES",
            ),
            (
                Shortfall::loading(&short("weights"), &budget),
                "stop what else uses the device, or take a smaller model",
            ),
            (
                Shortfall::loading(&short("weights on their way"), &budget),
                "stop what else uses the device, or take a smaller model",
            ),
            (
                Shortfall::loading(&short("rounded activations"), &budget),
                "stop what else uses the device, or take a smaller model",
            ),
            (
                Shortfall::loading(&short("GEMM autotuning"), &budget),
                "lower --chunked-prefill-size, or stop what else uses the device, or take a smaller model",
            ),
            (
                Shortfall::loading(&short("bf12 weights"), &budget),
                "give --fold-weights off",
            ),
            (
                Shortfall::serving(&short("keys and values"), &budget, budget.tokens),
                "lower --mem-fraction-static below 0.9 or --max-total-tokens below 65000000",
            ),
            (
                Shortfall::serving(&short("keys and values"), &budget, 1_000_000),
                "lower --max-total-tokens below 1000000",
            ),
            (
                Shortfall::serving(&short("scratch"), &budget, budget.tokens),
                "lower --chunked-prefill-size, --max-running-requests or --mem-fraction-static below 0.9",
            ),
            (
                Shortfall::serving(&short("inputs of a step"), &budget, budget.tokens),
                "lower --mem-fraction-static below 0.9, or stop what else uses the device",
            ),
        ];
        for (shortfall, advice) in cases {
            let message = shortfall.unwrap().to_string();
            let expected = format!(" were asked, 40.0 GB are free, 25.0 GB too little; {advice}");
            assert!(
                message.starts_with("a GPU: 65.0 GB for ") && message.ends_with(&expected),
                "{message}"
            );
        }
    }

    #[test]
    fn pinned_memory_is_the_hosts_and_may_be_forbidden_where_much_is_free() {
        for (free, lacking) in [(40 * GB, ""), (GB / 2, ", 500.0 MB too little")] {
            let pinned = DeviceError::OutOfMemory {
                device: "the host".into(),
                what: "pinned memory",
                wanted: GB,
                free,
            };
            for shortfall in [
                Shortfall::opening(&pinned),
                Shortfall::loading(&pinned, &budget()),
                Shortfall::serving(&pinned, &budget(), 1000),
            ] {
                let message = shortfall.unwrap().to_string();
                assert!(
                    message.contains(&format!(" are free{lacking}; ")),
                    "{message}"
                );
                assert!(message.contains("ulimit -l"), "{message}");
            }
        }
    }

    #[test]
    fn what_the_driver_could_not_take_for_itself_is_told_without_a_difference() {
        let context = lost("opening the GPU: out of memory (CUDA_ERROR_OUT_OF_MEMORY)");
        assert_eq!(
            Shortfall::opening(&context).unwrap().to_string(),
            "memory is short: opening the GPU: out of memory (CUDA_ERROR_OUT_OF_MEMORY); the driver does not say how \
             much is missing; stop what else uses the device, or name another one in CUDA_VISIBLE_DEVICES"
        );
    }

    #[test]
    fn a_device_that_broke_is_not_said_to_be_short_of_memory() {
        let broken = lost("launching a kernel: CUDA_ERROR_ILLEGAL_ADDRESS");
        let unknown = DeviceError::UnsupportedWeight {
            device: "a GPU".into(),
            format: "q9".into(),
        };
        for error in [&broken, &unknown] {
            assert_eq!(Shortfall::opening(error), None);
            assert_eq!(Shortfall::loading(error, &budget()), None);
            assert_eq!(Shortfall::serving(error, &budget(), 1000), None);
        }
        let captures = Captures {
            wanted: 2,
            done: 1,
            before: 2,
            left: 1,
        };
        let lost = DeviceLost::from(broken);
        assert_eq!(
            Shortfall::capturing(&lost, captures, &budget(), FEWER),
            None
        );
    }

    #[test]
    fn captured_steps_that_do_not_fit_are_told_with_what_the_others_would_need() {
        let instantiating = lost("instantiating a graph: out of memory (CUDA_ERROR_OUT_OF_MEMORY)");
        let cases = [
            (
                instantiating,
                12,
                "12 of 36 took 1.2 GB, 40.0 MB are free, the others need about 2.4 GB, 2.4 GB too little; ",
            ),
            (
                short("the decode megakernel"),
                0,
                "0 of 36 took 1.2 GB, 40.0 MB are free, too little for the next; the driver does not say",
            ),
            (
                short("the decode megakernel"),
                35,
                "35 of 36 took 1.2 GB, 40.0 MB are free, too little for the next; ",
            ),
        ];
        for (error, done, expected) in cases {
            let captures = Captures {
                wanted: 36,
                done,
                before: 1_240_000_000,
                left: 40_000_000,
            };
            let shortfall =
                Shortfall::capturing(&DeviceLost::from(error), captures, &budget(), FEWER);
            let message = shortfall.unwrap().to_string();
            assert!(message.contains(expected), "{message}");
            let knobs = "name fewer row counts in --cuda-graph-bs, or lower --mem-fraction-static below 0.9, or stop what else uses \
                         the device, or give --disable-cuda-graph";
            assert!(
                message.ends_with(knobs) && !message.contains("lost"),
                "{message}"
            );
        }
    }
}
