//! Clocks, temperature and power of GPUs while a run lasts.

use std::fmt::Write as _;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use super::nvml::{Nvml, Sample};
use crate::figures::Figures;
use crate::finding::{Finding, Kind};
use crate::statistics::mean;

/// How often GPUs are looked at.
const EVERY: Duration = Duration::from_millis(250);

/// Reasons for lower clocks that spoil a measurement, as bits of the driver's mask.
const REASONS: &[(u64, &str)] = &[
    (0x04, "the power limit"),
    (0x08, "a hardware slowdown"),
    (0x20, "heat (by software)"),
    (0x40, "heat (by hardware)"),
    (0x80, "the power supply"),
];

/// Watches the GPUs of this machine from a thread of its own.
#[derive(Debug)]
pub(crate) struct AcceleratorWatch {
    stop: Sender<()>,
    watching: JoinHandle<AcceleratorCourse>,
}

/// What was seen of the GPUs.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct AcceleratorCourse {
    /// Seconds since the beginning, and every GPU's state then.
    moments: Vec<(f64, Vec<Sample>)>,
}

impl AcceleratorWatch {
    /// Begins to watch; nothing when there is no GPU or no driver.
    pub(crate) fn start() -> Option<Self> {
        let nvml = Nvml::here()?;
        let (stop, stopped) = channel();
        let watching = thread::spawn(move || watch(nvml, &stopped));
        Some(Self { stop, watching })
    }

    /// Ends watching.
    pub(crate) fn finish(self) -> AcceleratorCourse {
        drop(self.stop);
        self.watching.join().unwrap_or_default()
    }
}

fn watch(nvml: &Nvml, stopped: &Receiver<()>) -> AcceleratorCourse {
    let began = Instant::now();
    let mut moments = Vec::new();
    loop {
        moments.push((began.elapsed().as_secs_f64(), nvml.samples()));
        if stopped.recv_timeout(EVERY) != Err(RecvTimeoutError::Timeout) {
            return AcceleratorCourse { moments };
        }
    }
}

impl AcceleratorCourse {
    /// The course as a table, a line per moment and GPU.
    pub(crate) fn table(&self) -> String {
        let mut table =
            "second,gpu,clock_mhz,highest_clock_mhz,temperature_c,power_w,reasons\n".to_owned();
        for (second, samples) in &self.moments {
            for (gpu, one) in samples.iter().enumerate() {
                let Sample {
                    clock,
                    highest_clock,
                    temperature,
                    power,
                    reasons,
                } = one;
                writeln!(
                    table,
                    "{second:.3},{gpu},{clock},{highest_clock},{temperature},{power:.1},{reasons:#x}"
                )
                .expect("a string takes all that is written to it");
            }
        }
        table
    }

    fn samples(&self) -> Vec<Sample> {
        let samples = self.moments.iter().flat_map(|(_, samples)| samples);
        samples.copied().collect()
    }

    /// Adds what was seen to a run's figures; energy per token when both are known.
    pub(crate) fn add_to(&self, figures: &mut Figures) {
        let samples = self.samples();
        if samples.is_empty() {
            return;
        }
        let gpus = samples.len() as f64 / self.moments.len() as f64;
        let average =
            |value: fn(&Sample) -> f64| mean(&samples.iter().map(value).collect::<Vec<_>>());
        let power = average(|sample| sample.power) * gpus;
        figures.set("gpu_clock_mhz", average(|sample| sample.clock));
        figures.set("gpu_power_w", power);
        let hottest = samples.iter().map(|sample| sample.temperature);
        figures.set(
            "gpu_temperature_c",
            hottest.fold(f64::NEG_INFINITY, f64::max),
        );
        let spoilt = REASONS.iter().fold(0, |mask, (bit, _)| mask | bit);
        let held = samples.iter().filter(|sample| sample.reasons & spoilt != 0);
        let held = held.count() as f64 / samples.len() as f64;
        figures.set("gpu_held_down", 100.0 * held);
        let duration = figures.get("duration");
        let tokens = figures
            .get("total_output_tokens")
            .filter(|tokens| *tokens > 0.0);
        if let Some((seconds, tokens)) = duration.zip(tokens) {
            figures.set("energy_per_token_j", power * seconds / tokens);
        }
    }

    /// Says so when clocks were held down.
    pub(crate) fn finding(&self) -> Option<Finding> {
        let samples = self.samples();
        let count = samples.len();
        let mut causes = Vec::new();
        for (bit, cause) in REASONS {
            let held = samples
                .iter()
                .filter(|sample| sample.reasons & bit != 0)
                .count();
            if held * 20 > count {
                causes.push(format!(
                    "{cause} in {:.0} % of the time",
                    held as f64 / count as f64 * 100.0
                ));
            }
        }
        let lowest = samples
            .iter()
            .map(|sample| sample.clock)
            .fold(f64::INFINITY, f64::min);
        let highest = samples.first()?.highest_clock;
        (!causes.is_empty()).then(|| {
            let text = format!(
                "GPU clocks were held down by {} ({lowest:.0} of {highest:.0} MHz at the lowest)",
                causes.join(", ")
            );
            Finding::new(Kind::Throttled, text)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn course(samples: &[(f64, f64, f64, u64)]) -> AcceleratorCourse {
        let moments = samples.iter().enumerate().map(|(at, sample)| {
            let (clock, temperature, power, reasons) = *sample;
            let sample = Sample {
                clock,
                highest_clock: 1980.0,
                temperature,
                power,
                reasons,
            };
            (at as f64, vec![sample, sample])
        });
        AcceleratorCourse {
            moments: moments.collect(),
        }
    }

    #[test]
    fn clocks_that_are_held_down_are_told() {
        let course = course(&[(1980.0, 41.0, 300.5, 0), (1200.0, 84.0, 699.5, 0x24)]);
        let mut figures = Figures::default();
        figures.set("duration", 10.0);
        figures.set("total_output_tokens", 1000.0);
        course.add_to(&mut figures);
        assert_eq!(figures.get("gpu_power_w"), Some(1000.0), "of two GPUs");
        assert_eq!(figures.get("gpu_temperature_c"), Some(84.0));
        assert_eq!(figures.get("gpu_held_down"), Some(50.0));
        assert_eq!(figures.get("energy_per_token_j"), Some(10.0));
        assert_eq!(
            course.finding().unwrap().text,
            "GPU clocks were held down by the power limit in 50 % of the time, heat (by software) in \
             50 % of the time (1200 of 1980 MHz at the lowest)"
        );
        assert!(
            course
                .table()
                .ends_with("1.000,1,1200,1980,84,699.5,0x24\n")
        );
    }

    #[test]
    fn an_idle_or_missing_gpu_is_nothing_to_tell() {
        assert_eq!(course(&[(345.0, 30.0, 80.0, 1)]).finding(), None);
        assert_eq!(AcceleratorCourse::default().finding(), None);
        let mut figures = Figures::default();
        AcceleratorCourse::default().add_to(&mut figures);
        assert_eq!(figures, Figures::default());
    }
}
