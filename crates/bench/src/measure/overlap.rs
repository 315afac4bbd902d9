//! How many requests were under way at once, by sweeping over starts and ends.

use crate::clock::Nanos;

/// A span in which a fixed number of requests was under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Level {
    /// From.
    pub from: Nanos,
    /// To.
    pub to: Nanos,
    /// How many.
    pub under_way: usize,
}

/// The levels over time of requests with these starts and ends. One that ends as another starts
/// does not overlap it.
pub fn levels(spans: &[(Nanos, Nanos)]) -> Vec<Level> {
    let mut events: Vec<(Nanos, isize)> = Vec::with_capacity(spans.len() * 2);
    for (start, end) in spans {
        events.push((*start, 1));
        events.push((*end.max(start), -1));
    }
    events.sort_unstable();
    let mut under_way = 0_isize;
    let mut levels = Vec::new();
    let mut events = events.into_iter().peekable();
    while let Some((from, change)) = events.next() {
        under_way += change;
        while let Some((_, change)) = events.next_if(|(moment, _)| *moment == from) {
            under_way += change;
        }
        if let Some((to, _)) = events.peek() {
            levels.push(Level {
                from,
                to: *to,
                under_way: under_way.max(0) as usize,
            });
        }
    }
    levels
}

/// The most that were ever under way at once.
pub fn peak(levels: &[Level]) -> usize {
    levels
        .iter()
        .map(|level| level.under_way)
        .max()
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_peak_counts_true_overlap_only() {
        let spans = |pairs: &[(u64, u64)]| -> Vec<(Nanos, Nanos)> {
            pairs
                .iter()
                .map(|(from, to)| (Nanos(*from), Nanos(*to)))
                .collect()
        };
        assert_eq!(peak(&levels(&spans(&[(0, 10), (10, 20), (20, 30)]))), 1);
        assert_eq!(
            peak(&levels(&spans(&[(0, 10), (5, 20), (9, 30), (20, 40)]))),
            3
        );
        assert_eq!(peak(&levels(&spans(&[]))), 0);
        let found = levels(&spans(&[(0, 10), (5, 20)]));
        let counts: Vec<usize> = found.iter().map(|level| level.under_way).collect();
        assert_eq!(counts, [1, 2, 1]);
    }
}
