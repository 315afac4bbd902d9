use std::collections::BTreeMap;

use ops::program::Leaves;
use ops::{DeviceError, Graph};

/// Captured decoding steps by their number of rows and what they leave.
#[derive(Default)]
pub(crate) struct Graphs {
    captured: BTreeMap<(usize, Leaves), Box<dyn Graph>>,
}

impl Graphs {
    pub(crate) fn insert(&mut self, rows: usize, leaves: Leaves, graph: Box<dyn Graph>) {
        self.captured.insert((rows, leaves), graph);
    }

    /// The smallest captured number of rows that holds `rows`; whatever is left, the same are captured.
    pub(crate) fn bucket(&self, rows: usize) -> Option<usize> {
        let larger = self.captured.range((rows, Leaves::Logits)..);
        larger.map(|(&(bucket, _), _)| bucket).next()
    }

    /// Enqueues the step of exactly `rows` rows.
    pub(crate) fn replay(&self, rows: usize, leaves: Leaves) -> Result<(), DeviceError> {
        self.captured[&(rows, leaves)].replay()
    }
}
