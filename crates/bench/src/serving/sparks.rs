//! `--plot-throughput`: the two per-second series, in the terminal.

use std::fmt::Write;

const WIDEST: usize = 60;

/// Tokens and requests of every second as bars, one line per second or per group of seconds.
pub(super) fn plot((tokens, requests): &(Vec<f64>, Vec<f64>)) -> String {
    series("Output tokens per second", tokens) + &series("Concurrent requests per second", requests)
}

fn series(title: &str, values: &[f64]) -> String {
    let mut text = format!("\n{title}\n");
    let highest = values.iter().copied().fold(1.0, f64::max);
    let group = values.len().div_ceil(WIDEST).max(1);
    for (place, values) in values.chunks(group).enumerate() {
        let value = values.iter().copied().fold(0.0, f64::max);
        let bar = "▇".repeat((value / highest * 50.0).round() as usize);
        writeln!(text, "{:>6} s |{bar} {value:.0}", place * group)
            .expect("a string takes all that is written to it");
    }
    text
}
