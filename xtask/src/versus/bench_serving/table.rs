//! The table: what each load costs each client, and whether that is what was wanted.

use std::fmt::Write as _;

use super::contender::Cost;
use super::load::Load;

/// How many times better than the better of the others we want to be.
const WANTED_CPU: f64 = 20.0;
const WANTED_RATE: f64 = 20.0;
const WANTED_MEMORY: f64 = 5.0;
/// The 99th percentile of our own timing error stays below this, microseconds.
const WANTED_ERROR: f64 = 200.0;

/// One row: a measure under a load, ours first.
struct Row<'a> {
    measure: &'a str,
    load: &'a str,
    values: Vec<f64>,
    digits: usize,
    /// How many times better than the best of the others, and what that should be.
    ratio: f64,
    wanted: f64,
}

/// The whole table; `error` is the 99th percentile of our own timing error in microseconds.
pub(super) fn table(names: &[&str], measured: &[(&Load, Vec<Cost>)], error: f64) -> String {
    let mut out = format!(
        "| measure | load, 256 streams | {} | ours is better by | wanted |\n|---|---|{}---|---|\n",
        names.join(" | "),
        "---|".repeat(names.len())
    );
    for (load, costs) in measured {
        for row in rows(load, costs) {
            out.push_str(&row.markdown());
        }
    }
    let verdict = if error < WANTED_ERROR {
        "met"
    } else {
        "not met"
    };
    let blanks = " – |".repeat(names.len());
    let _ = writeln!(
        out,
        "| own timing error, p99, µs | 1,000 streams | {error:.0} |{blanks} < {WANTED_ERROR}, {verdict} |"
    );
    out
}

fn rows<'a>(load: &'a Load, costs: &[Cost]) -> Vec<Row<'a>> {
    let row = |measure, digits, wanted, value: fn(&Cost) -> f64, more_is_better: bool| {
        let values: Vec<f64> = costs.iter().map(value).collect();
        let others = values[1..].iter().copied();
        let ratio = if more_is_better {
            values[0] / others.fold(0.0, f64::max)
        } else {
            others.fold(f64::INFINITY, f64::min) / values[0]
        };
        Row {
            measure,
            load: load.name,
            values,
            digits,
            ratio,
            wanted,
        }
    };
    let mut rows = vec![row(
        "CPU s per million tokens",
        2,
        WANTED_CPU,
        |cost| cost.cpu,
        false,
    )];
    if load.is_unpaced {
        rows.push(row(
            "highest tokens/s",
            0,
            WANTED_RATE,
            |cost| cost.rate,
            true,
        ));
    }
    rows.push(row(
        "peak memory, MB",
        0,
        WANTED_MEMORY,
        |cost| cost.memory,
        false,
    ));
    rows
}

impl Row<'_> {
    fn markdown(&self) -> String {
        let mut out = format!("| {} | {} |", self.measure, self.load);
        for value in &self.values {
            let _ = write!(out, " {value:.*} |", self.digits);
        }
        let verdict = if self.ratio >= self.wanted {
            "met"
        } else {
            "not met"
        };
        let _ = writeln!(
            out,
            " **{:.1}×** | ≥ {}×, {verdict} |",
            self.ratio, self.wanted
        );
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::versus::bench_serving::load::LOADS;

    #[test]
    fn ours_is_held_against_the_best_of_the_others() {
        let cost = |cpu, memory, rate| Cost { cpu, memory, rate };
        let costs = vec![
            cost(0.5, 40.0, 2e6),
            cost(12.0, 190.0, 9e4),
            cost(9.0, 210.0, 1e5),
        ];
        let text = table(&["ours", "a", "b"], &[(&LOADS[0], costs)], 31.2);
        let lines: Vec<&str> = text.lines().collect();
        let name = LOADS[0].name;
        assert_eq!(
            lines[2],
            format!(
                "| CPU s per million tokens | {name} | 0.50 | 12.00 | 9.00 | **18.0×** | ≥ 20×, not met |"
            )
        );
        assert_eq!(
            lines[3],
            format!(
                "| highest tokens/s | {name} | 2000000 | 90000 | 100000 | **20.0×** | ≥ 20×, met |"
            )
        );
        assert!(lines[4].ends_with("**4.8×** | ≥ 5×, not met |"));
        assert!(lines[5].starts_with("| own timing error, p99, µs | 1,000 streams | 31 | – |"));
    }
}
