//! The table of GPU states that a run keeps, read again.

use std::collections::BTreeMap;

/// The file of a run that has the table.
pub(crate) const ACCELERATORS: &str = "accelerators.csv";

/// All GPUs at one moment.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Moment {
    /// Seconds since the watch began.
    pub(crate) second: f64,
    /// The mean clock, MHz.
    pub(crate) clock: f64,
    /// The power of all, W.
    pub(crate) power: f64,
}

/// The moments of a table, in order. A line that was cut is left out.
pub(crate) fn moments(table: &str) -> Vec<Moment> {
    let mut lines = table.lines();
    let names: Vec<&str> = lines.next().unwrap_or_default().split(',').collect();
    let column = |name: &str| names.iter().position(|other| *other == name);
    let wanted = ["second", "clock_mhz", "power_w"].map(column);
    let mut rows: BTreeMap<String, Vec<[f64; 3]>> = BTreeMap::new();
    for line in lines {
        let cells: Vec<&str> = line.split(',').collect();
        let number = |at: Option<usize>| cells.get(at?)?.parse::<f64>().ok();
        if let [Some(second), Some(clock), Some(power)] = wanted.map(number) {
            let row = [second, clock, power];
            let moment = format!("{second:020.6}");
            rows.entry(moment).or_default().push(row);
        }
    }
    let moments = rows.into_values().map(|gpus| Moment {
        second: gpus[0][0],
        clock: gpus.iter().map(|gpu| gpu[1]).sum::<f64>() / gpus.len() as f64,
        power: gpus.iter().map(|gpu| gpu[2]).sum(),
    });
    moments.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_is_read_moment_by_moment() {
        let table = "second,gpu,clock_mhz,highest_clock_mhz,temperature_c,power_w,reasons\n\
            0.000,0,1980,1980,40,300.0,0x0\n0.000,1,1380,1980,50,200.0,0x4\n10.250,0,1200,1980,60,100.0,0x0\n2";
        let moment = |second, clock, power| Moment {
            second,
            clock,
            power,
        };
        assert_eq!(
            moments(table),
            [moment(0.0, 1680.0, 500.0), moment(10.25, 1200.0, 100.0)]
        );
        assert_eq!(moments(""), []);
    }
}
