use std::collections::BTreeMap;

use ops::{DeviceError, Graph};

/// Captured decoding steps by their number of rows.
#[derive(Default)]
pub(crate) struct Graphs {
    by_rows: BTreeMap<usize, Box<dyn Graph>>,
}

impl Graphs {
    pub(crate) fn insert(&mut self, rows: usize, graph: Box<dyn Graph>) {
        self.by_rows.insert(rows, graph);
    }

    /// The smallest captured number of rows that holds `rows`.
    pub(crate) fn bucket(&self, rows: usize) -> Option<usize> {
        self.by_rows.range(rows..).next().map(|(&bucket, _)| bucket)
    }

    /// Enqueues the step of exactly `rows` rows.
    pub(crate) fn replay(&self, rows: usize) -> Result<(), DeviceError> {
        self.by_rows[&rows].replay()
    }
}
