//! Which steps a GPU captures.

use super::on_device::MOST_ROWS;
use super::{Resolver, within};
use crate::launch::{ConfigError, gpu};

const NAMED: &str = "--cuda-graph-bs";
const MOST: &str = "--cuda-graph-max-bs";
const RANGE: &str = "between 1 and 65536";

impl Resolver<'_> {
    /// The row counts of captured steps; what was asked beyond those that steps can have is told.
    pub(super) fn graphs(&mut self, max_rows: u32) -> Result<Vec<usize>, ConfigError> {
        if self.on_cpu() {
            return Ok(Vec::new());
        }
        let (most, named) = (self.given(MOST), self.parsed.integers("cuda-graph-bs"));
        if self.parsed.switch("disable-cuda-graph") {
            for (flag, is_given) in [(MOST, most.is_some()), (NAMED, named.is_some())] {
                if is_given {
                    self.without_effect(flag, "--disable-cuda-graph captures nothing");
                }
            }
            self.note("cuda_graph_bs", "none", "--disable-cuda-graph");
            return Ok(Vec::new());
        }
        let (rows, why) = match named {
            None => (
                self.rows_up_to(most, max_rows)?,
                "by memory, close together where batches are small",
            ),
            Some(named) => {
                if most.is_some() {
                    self.without_effect(MOST, "--cuda-graph-bs names every row count");
                }
                (self.named_rows(named, max_rows)?, "given")
            }
        };
        self.note("cuda_graph_bs", format!("{rows:?}"), why);
        Ok(rows)
    }

    /// What would make them fewer, in words: the flag that has no effect is not named.
    pub(super) fn fewer_graphs(&self) -> &'static str {
        match self.parsed.integers("cuda-graph-bs") {
            Some(_) => "name fewer row counts in --cuda-graph-bs",
            None => "lower --cuda-graph-max-bs",
        }
    }

    fn rows_up_to(&mut self, most: Option<i64>, max_rows: u32) -> Result<Vec<usize>, ConfigError> {
        let (_, by_memory) = gpu::by_memory(self.here.device.memory_total);
        let wanted = within(MOST, most.unwrap_or(by_memory), MOST_ROWS, RANGE)?;
        if most.is_some() && wanted > max_rows {
            self.followed_in_part(MOST, &limit(max_rows));
        }
        Ok(gpu::graph_rows(wanted.min(max_rows) as usize))
    }

    /// In their order, each once.
    fn named_rows(&mut self, named: Vec<i64>, max_rows: u32) -> Result<Vec<usize>, ConfigError> {
        let rows = named
            .into_iter()
            .map(|rows| Ok(within(NAMED, rows, MOST_ROWS, RANGE)? as usize));
        let mut rows = rows.collect::<Result<Vec<_>, _>>()?;
        rows.sort_unstable();
        rows.dedup();
        let fitting = rows.partition_point(|&rows| rows <= max_rows as usize);
        let beyond = rows.split_off(fitting);
        let limit = limit(max_rows);
        match (rows.is_empty(), beyond.is_empty()) {
            (true, _) => self.without_effect(NAMED, format!("nothing is captured: {limit}")),
            (false, true) => {}
            (false, false) => {
                self.followed_in_part(NAMED, &format!("{limit}, so {beyond:?} is left out"));
            }
        }
        Ok(rows)
    }
}

fn limit(max_rows: u32) -> String {
    format!("no step has more than {max_rows} rows (--max-running-requests)")
}
