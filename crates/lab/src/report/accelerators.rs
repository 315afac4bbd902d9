//! How GPUs were doing under a load, and which machines there were.

use super::Report;
use crate::machine::Machine;
use crate::statistics::mean;

/// A sentence for each subject whose runs watched a GPU.
pub(super) fn sentences(report: &Report, load: &str) -> Vec<String> {
    let told = report.subjects.iter().filter_map(|subject| {
        let runs = report.cell(subject, load);
        let values = |name: &str| -> Vec<f64> {
            let found = runs.iter().filter_map(|one| one.run.figures.get(name));
            found.collect()
        };
        let clocks = values("gpu_clock_mhz");
        if clocks.is_empty() {
            return None;
        }
        let hottest = values("gpu_temperature_c").into_iter().fold(0.0, f64::max);
        let energy = values("energy_per_token_j");
        let energy = if energy.is_empty() {
            String::new()
        } else {
            format!(", {:.2} mJ an output token", 1e3 * mean(&energy))
        };
        Some(format!(
            "{subject}: GPU clock {:.0} MHz, power {:.0} W, {hottest:.0} °C at most, clocks held down in {:.0} % of the time{energy}",
            mean(&clocks),
            mean(&values("gpu_power_w")),
            mean(&values("gpu_held_down")),
        ))
    });
    told.collect()
}

/// Each machine once.
pub(super) fn machines(report: &Report) -> Vec<String> {
    let known = report
        .evidence
        .iter()
        .filter_map(|one| one.run.machine.as_ref());
    let mut sentences: Vec<String> = known.map(Machine::sentence).collect();
    sentences.sort();
    sentences.dedup();
    sentences
}
