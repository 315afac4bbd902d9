//! What was measured, sample by sample.

use super::idle::QUIET;

/// What is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Measure {
    /// Tokens a second of one stream.
    Decode,
    /// Prompt tokens a second.
    Prompt,
    /// Output tokens a second of many streams.
    Concurrent,
    /// Resident bytes before the first request.
    MemoryLoaded,
    /// Resident bytes after the load.
    Memory,
    /// The most resident bytes.
    MemoryPeak,
}

impl Measure {
    /// Whether other processes could have disturbed it.
    fn is_speed(self) -> bool {
        matches!(self, Self::Decode | Self::Prompt | Self::Concurrent)
    }
}

/// How it is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    /// By our client over HTTP.
    Http,
    /// By the contender's own tool.
    Tool,
}

/// One measurement.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Sample {
    /// Tokens a second, or bytes.
    pub(crate) value: f64,
    /// Cores that other processes used meanwhile.
    pub(crate) others: f64,
}

impl Sample {
    /// Whether other processes were quiet.
    pub(crate) fn is_clean(&self) -> bool {
        self.others < QUIET
    }
}

/// All samples of one measure of one side.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Series {
    name: &'static str,
    measure: Measure,
    way: Way,
    samples: Vec<Sample>,
}

impl Series {
    /// Whether other processes were quiet during at least one sample.
    pub(crate) fn is_clean(&self) -> bool {
        self.samples.iter().any(Sample::is_clean)
    }

    /// The middle value.
    pub(crate) fn median(&self) -> f64 {
        median(&self.values())
    }

    /// The smallest and the largest value.
    pub(crate) fn spread(&self) -> (f64, f64) {
        let values = self.values();
        let smallest = values.iter().copied().fold(f64::INFINITY, f64::min);
        (smallest, values.iter().copied().fold(0.0, f64::max))
    }

    /// How it was measured.
    pub(crate) fn way(&self) -> Way {
        self.way
    }

    /// The clean values, or all when there is none.
    fn values(&self) -> Vec<f64> {
        let counts = |sample: &&Sample| sample.is_clean() || !self.is_clean();
        let samples = self.samples.iter().filter(counts);
        samples.map(|sample| sample.value).collect()
    }
}

/// Everything that was measured.
#[derive(Debug, Default)]
pub(crate) struct Results {
    series: Vec<Series>,
}

impl Results {
    /// Takes a sample and says what it is.
    pub(crate) fn add(&mut self, name: &'static str, measure: Measure, way: Way, sample: Sample) {
        let note = if sample.is_clean() { "" } else { ", NOT clean" };
        println!(
            "  {measure:?} {way:?} {:.1} (others {:.2} cores{note})",
            sample.value, sample.others
        );
        let same = |series: &&mut Series| {
            (series.name, series.measure, series.way) == (name, measure, way)
        };
        match self.series.iter_mut().find(same) {
            Some(series) => series.samples.push(sample),
            None => self.series.push(Series {
                name,
                measure,
                way,
                samples: vec![sample],
            }),
        }
    }

    /// The series of a side that looks best for it: the larger median of all ways.
    pub(crate) fn best(&self, name: &str, measure: Measure) -> Option<&Series> {
        let series = self.series.iter();
        let series = series.filter(|series| series.name == name && series.measure == measure);
        series.max_by(|a, b| a.median().total_cmp(&b.median()))
    }

    /// How many samples of a side's speed are clean, and how many there are.
    pub(crate) fn clean(&self, name: &str) -> (usize, usize) {
        let series = self.series.iter();
        let series = series.filter(|series| series.name == name && series.measure.is_speed());
        let samples: Vec<&Sample> = series.flat_map(|series| &series.samples).collect();
        let clean = samples.iter().filter(|sample| sample.is_clean());
        (clean.count(), samples.len())
    }
}

/// The middle value; the mean of the two in the middle when their number is even.
pub(crate) fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let (low, high) = (sorted[(sorted.len() - 1) / 2], sorted[sorted.len() / 2]);
    f64::midpoint(low, high)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(value: f64) -> Sample {
        Sample { value, others: 0.0 }
    }

    #[test]
    fn the_median_is_the_middle() {
        assert!((median(&[3.0, 1.0, 2.0]) - 2.0).abs() < 1e-12);
        assert!((median(&[4.0, 1.0]) - 2.5).abs() < 1e-12);
    }

    #[test]
    fn samples_beside_other_work_do_not_count_when_there_are_clean_ones() {
        let mut results = Results::default();
        for (value, others) in [(5.0, 1.0), (100.0, 0.0), (110.0, 0.05)] {
            results.add("peer", Measure::Prompt, Way::Http, Sample { value, others });
        }
        let series = results.best("peer", Measure::Prompt).unwrap();
        assert_eq!(series.spread(), (100.0, 110.0));
        assert_eq!(results.clean("peer"), (2, 3));
        results.add(
            "busy",
            Measure::Prompt,
            Way::Http,
            Sample {
                value: 5.0,
                others: 1.0,
            },
        );
        let series = results.best("busy", Measure::Prompt).unwrap();
        assert!(!series.is_clean());
        assert_eq!(series.spread(), (5.0, 5.0));
    }

    #[test]
    fn a_side_is_shown_at_its_best() {
        let mut results = Results::default();
        for (way, values) in [(Way::Http, [1.0, 2.0, 9.0]), (Way::Tool, [3.0, 4.0, 5.0])] {
            for value in values {
                results.add("peer", Measure::Decode, way, sample(value));
            }
        }
        let best = results.best("peer", Measure::Decode).unwrap();
        assert_eq!(best.way(), Way::Tool);
        assert_eq!(best.spread(), (3.0, 5.0));
        assert_eq!(results.best("ours", Measure::Decode), None);
        assert_eq!(results.clean("peer"), (6, 6));
    }
}
