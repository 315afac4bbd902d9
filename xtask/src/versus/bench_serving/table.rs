//! The table: what each load costs each client, and whether that is what was wanted.

use std::fmt::Write as _;

use super::contender::Cost;
use super::load::Load;

/// How many times better than the better of the others we want to be.
const WANTED_CPU: f64 = 20.0;
const WANTED_RATE: f64 = 20.0;
const WANTED_MEMORY: f64 = 5.0;
/// Where each token comes alone, we want to need no more than this many times what a bare reader does.
const WANTED_BARE: f64 = 2.0;
/// The 99th percentile of our own timing error stays below this, microseconds.
const WANTED_ERROR: f64 = 200.0;

/// One row: a measure under a load; ours first, then the bare reader's, then those of the others.
struct Row<'a> {
    measure: &'a str,
    load: &'a str,
    values: Vec<f64>,
    digits: usize,
    more_is_better: bool,
    wanted: Wanted,
}

/// What a row is judged by.
#[derive(Clone, Copy, PartialEq)]
enum Wanted {
    /// Ours is better than the best of the others by this.
    Better(f64),
    /// Ours is at most this many times the bare reader's; the other bar would be this.
    NearBare(f64, f64),
}

/// The whole table; `error` is the 99th percentile of our own timing error in microseconds.
pub(super) fn table(names: &[&str], measured: &[(&Load, Vec<Cost>)], error: f64) -> String {
    let mut out = format!(
        "| measure | load, 256 streams | {} | ours is better by | ours / bare | wanted |\n|---|---|{}---|---|---|\n",
        names.join(" | "),
        "---|".repeat(names.len())
    );
    for (load, costs) in measured {
        for row in rows(load, costs) {
            out.push_str(&row.markdown());
        }
    }
    let blanks = " – |".repeat(names.len() + 1);
    let _ = writeln!(
        out,
        "| own timing error, p99, µs | 1,000 streams | {error:.0} |{blanks} < {WANTED_ERROR}, {} |",
        verdict(error < WANTED_ERROR)
    );
    out
}

fn rows<'a>(load: &'a Load, costs: &[Cost]) -> Vec<Row<'a>> {
    let row = |measure, digits, wanted, value: fn(&Cost) -> f64, more_is_better: bool| Row {
        measure,
        load: load.name,
        values: costs.iter().map(value).collect(),
        digits,
        more_is_better,
        wanted,
    };
    let cpu = |wanted| {
        row(
            "CPU s per million tokens",
            2,
            wanted,
            |cost| cost.cpu,
            false,
        )
    };
    let memory = row(
        "peak memory, MB",
        0,
        Wanted::Better(WANTED_MEMORY),
        |cost| cost.memory,
        false,
    );
    if !load.is_unpaced {
        return vec![cpu(Wanted::NearBare(WANTED_BARE, WANTED_CPU)), memory];
    }
    let rate = Wanted::Better(WANTED_RATE);
    vec![
        cpu(Wanted::Better(WANTED_CPU)),
        row("highest tokens/s", 0, rate, |cost| cost.rate, true),
        memory,
    ]
}

impl Row<'_> {
    /// How many times better a value is than the best of the reference's.
    fn better(&self, value: f64) -> f64 {
        let others = self.values[2..].iter().copied();
        if self.more_is_better {
            value / others.fold(0.0, f64::max)
        } else {
            others.fold(f64::INFINITY, f64::min) / value
        }
    }

    fn markdown(&self) -> String {
        let mut out = format!("| {} | {} |", self.measure, self.load);
        for value in &self.values {
            let _ = write!(out, " {value:.*} |", self.digits);
        }
        let (ours, bare) = (self.values[0], self.values[1]);
        let (better, near) = (self.better(ours), ours / bare);
        let wanted = match self.wanted {
            Wanted::Better(bar) => format!("≥ {bar}×, {}", verdict(better >= bar)),
            Wanted::NearBare(bar, other) => {
                let mut text = format!("≤ {bar} × bare, {}", verdict(near <= bar));
                let limit = self.better(bare);
                if limit < other {
                    let _ = write!(
                        text,
                        "; {other}× is out of reach, the bare reader is better by {limit:.1}×"
                    );
                }
                text
            }
        };
        let _ = writeln!(out, " **{better:.1}×** | {near:.2} | {wanted} |");
        out
    }
}

fn verdict(met: bool) -> &'static str {
    if met { "met" } else { "not met" }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::versus::bench_serving::load::LOADS;

    fn cost(cpu: f64, memory: f64, rate: f64) -> Cost {
        Cost { cpu, memory, rate }
    }

    #[test]
    fn ours_is_held_against_the_best_of_the_others() {
        let costs = vec![
            cost(0.5, 40.0, 2e6),
            cost(0.2, 4.0, 4e6),
            cost(12.0, 190.0, 9e4),
            cost(9.0, 210.0, 1e5),
        ];
        let text = table(&["ours", "bare", "a", "b"], &[(&LOADS[0], costs)], 31.2);
        let lines: Vec<&str> = text.lines().collect();
        let name = LOADS[0].name;
        assert_eq!(
            lines[2],
            format!(
                "| CPU s per million tokens | {name} | 0.50 | 0.20 | 12.00 | 9.00 | **18.0×** | 2.50 | ≥ 20×, not met |"
            )
        );
        assert_eq!(
            lines[3],
            format!(
                "| highest tokens/s | {name} | 2000000 | 4000000 | 90000 | 100000 | **20.0×** | 0.50 | ≥ 20×, met |"
            )
        );
        assert!(lines[4].ends_with("**4.8×** | 10.00 | ≥ 5×, not met |"));
        assert!(lines[5].starts_with("| own timing error, p99, µs | 1,000 streams | 31 | – |"));
        let columns = |line: &str| line.matches('|').count();
        assert!(lines.iter().all(|line| columns(line) == columns(lines[0])));
    }

    #[test]
    fn where_each_token_comes_alone_the_bare_reader_is_the_bar() {
        let paced = LOADS.iter().find(|load| !load.is_unpaced).unwrap();
        let row = |ours, bare| {
            let costs = [ours, bare, 30.0, 28.0].map(|cpu| cost(cpu, 10.0, 1.0));
            rows(paced, &costs)[0].markdown()
        };
        let near = row(7.0, 5.0);
        assert!(
            near.ends_with(
                "**4.0×** | 1.40 | ≤ 2 × bare, met; 20× is out of reach, the bare reader is better by 5.6× |\n"
            ),
            "{near}"
        );
        let far = row(7.0, 1.0);
        assert!(far.ends_with("| ≤ 2 × bare, not met |\n"), "{far}");
    }
}
