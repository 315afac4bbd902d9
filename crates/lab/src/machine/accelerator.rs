//! Clocks, temperature and power of GPUs while a run lasts, through the driver's own tool.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::figures::Figures;
use crate::finding::{Finding, Kind};
use crate::os::Signal;
use crate::statistics::mean;
use crate::subject::{Launch, Log, Process, Stamps};

const QUERY: &str = "--query-gpu=clocks.sm,clocks.max.sm,temperature.gpu,power.draw,\
    clocks_throttle_reasons.active";

/// Reasons for lower clocks that spoil a measurement, as bits of the driver's mask.
const REASONS: &[(u64, &str)] = &[
    (0x04, "the power limit"),
    (0x08, "a hardware slowdown"),
    (0x20, "heat (by software)"),
    (0x40, "heat (by hardware)"),
    (0x80, "the power supply"),
];

/// Watches the GPUs of this machine, if there are any.
#[derive(Debug)]
pub(crate) struct AcceleratorWatch {
    process: Process,
    path: PathBuf,
}

/// What was seen of the GPUs.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct AcceleratorCourse {
    samples: Vec<Sample>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
struct Sample {
    clock: f64,
    highest_clock: f64,
    temperature: f64,
    power: f64,
    reasons: u64,
}

impl AcceleratorWatch {
    /// Begins to watch; nothing when there is no GPU or no driver.
    pub(crate) fn start(path: &Path, mark: &str) -> Option<Self> {
        let launch = Launch {
            words: [
                "nvidia-smi",
                QUERY,
                "--format=csv,noheader,nounits",
                "--loop-ms=500",
            ]
            .map(str::to_owned)
            .to_vec(),
            environment: BTreeMap::new(),
            folder: None,
            mark: mark.to_owned(),
        };
        let log = Log::create(path, 4 << 20, None, Stamps::None).ok()?;
        let process = Process::start(&launch, log.clone(), log).ok()?;
        let path = path.to_owned();
        Some(Self { process, path })
    }

    /// Ends watching.
    pub(crate) fn finish(self) -> AcceleratorCourse {
        self.process.stop(Signal::Terminate, Duration::from_secs(1));
        AcceleratorCourse::read(&fs::read_to_string(&self.path).unwrap_or_default())
    }
}

impl AcceleratorCourse {
    fn read(text: &str) -> Self {
        let samples = text.lines().filter_map(|line| {
            let cells: Vec<&str> = line.split(',').map(str::trim).collect();
            let [clock, highest, temperature, power, reasons] = cells.as_slice() else {
                return None;
            };
            Some(Sample {
                clock: clock.parse().ok()?,
                highest_clock: highest.parse().ok()?,
                temperature: temperature.parse().ok()?,
                power: power.parse().ok()?,
                reasons: u64::from_str_radix(reasons.trim_start_matches("0x"), 16).ok()?,
            })
        });
        Self {
            samples: samples.collect(),
        }
    }

    /// Adds what was seen to a run's figures; energy per token when both are known.
    pub(crate) fn add_to(&self, figures: &mut Figures) {
        if self.samples.is_empty() {
            return;
        }
        let average =
            |value: fn(&Sample) -> f64| mean(&self.samples.iter().map(value).collect::<Vec<_>>());
        let power = average(|sample| sample.power);
        figures.set("gpu_clock_mhz", average(|sample| sample.clock));
        figures.set("gpu_power_w", power);
        let hottest = self.samples.iter().map(|sample| sample.temperature);
        figures.set(
            "gpu_temperature_c",
            hottest.fold(f64::NEG_INFINITY, f64::max),
        );
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
        let count = self.samples.len();
        let mut causes = Vec::new();
        for (bit, cause) in REASONS {
            let held = self
                .samples
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
        let lowest = self
            .samples
            .iter()
            .map(|sample| sample.clock)
            .fold(f64::INFINITY, f64::min);
        let highest = self.samples.first()?.highest_clock;
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

    #[test]
    fn clocks_that_are_held_down_are_told() {
        let text = "1980, 1980, 41, 300.5, 0x0000000000000000\n1200, 1980, 84, 699.5, 0x0000000000000024\n\
            no GPU here\n";
        let course = AcceleratorCourse::read(text);
        let mut figures = Figures::default();
        figures.set("duration", 10.0);
        figures.set("total_output_tokens", 1000.0);
        course.add_to(&mut figures);
        assert_eq!(figures.get("gpu_power_w"), Some(500.0));
        assert_eq!(figures.get("gpu_temperature_c"), Some(84.0));
        assert_eq!(figures.get("energy_per_token_j"), Some(5.0));
        assert_eq!(
            course.finding().unwrap().text,
            "GPU clocks were held down by the power limit in 50 % of the time, heat (by software) in \
             50 % of the time (1200 of 1980 MHz at the lowest)"
        );
        let calm = AcceleratorCourse::read("1980, 1980, 41, 300.5, 0x01\n");
        assert_eq!(calm.finding(), None);
        assert_eq!(AcceleratorCourse::default().finding(), None);
    }
}
