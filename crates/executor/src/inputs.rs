use std::sync::Arc;

use ops::{DeviceError, ResolveTokens, SampleParams, Staging};
use sampling::{SamplingParams, StopRules};
use scheduler::{PageSize, Row, RowInput, RowPlan, Sample, StepPlan};
use tensor::{DType, Element, View};

use crate::tables::Tables;

/// Everything a step's kernels read, as the host knows it; reused from step to step.
#[derive(Default)]
pub(crate) struct StepInputs {
    pub(crate) ids: Vec<u32>,
    pub(crate) positions: Vec<u32>,
    pub(crate) slots: Vec<u32>,
    pub(crate) starts: Vec<u32>,
    pub(crate) lengths: Vec<u32>,
    pub(crate) table_rows: Vec<u32>,
    pub(crate) max_query: usize,
    pub(crate) sampled: SampledRows,
    pub(crate) edits: Vec<RowEdits>,
    /// Writes to the page table: row, column and page.
    pub(crate) pages: Vec<[u32; 3]>,
    pub(crate) counted: Counted,
    pub(crate) scored: Vec<ScoredToken>,
}

/// The rows that sample, in plan order.
#[derive(Default)]
pub(crate) struct SampledRows {
    /// Which token of the step their logits come from.
    pub(crate) indices: Vec<u32>,
    pub(crate) table_rows: Vec<u32>,
    /// Output positions: counters of the random numbers.
    pub(crate) positions: Vec<u32>,
    pub(crate) params: Vec<SampleParams>,
    pub(crate) temperatures: Vec<f32>,
    /// Tokens to score beside the sampled one, a list a row.
    pub(crate) chosen: Vec<Vec<u32>>,
    /// The most top log-probabilities any row wants; `None` when no row wants any log-probability.
    pub(crate) top: Option<usize>,
}

/// Additions to single logits of a row that samples; there may be as many as the vocabulary has tokens, so nobody copies
/// them.
pub(crate) struct RowEdits {
    /// The row's place among those that sample.
    place: u32,
    /// Output position.
    position: u32,
    stop: Arc<StopRules>,
    params: Arc<SamplingParams>,
}

/// Changes to the counts of rows with penalties, before the step.
#[derive(Default)]
pub(crate) struct Counted {
    pub(crate) clear: Vec<u32>,
    /// Row and token.
    pub(crate) tokens: Vec<[u32; 2]>,
}

/// A prompt token to score from the logits of the token before it.
pub(crate) struct ScoredToken {
    /// Which token of the step its logits come from.
    pub(crate) index: u32,
    /// The prompt token.
    pub(crate) token: u32,
    /// Tokens asked for beside it.
    pub(crate) chosen: Vec<u32>,
    /// How many top log-probabilities are wanted.
    pub(crate) top: usize,
}

impl StepInputs {
    /// Takes the plan into the tables and collects what the kernels need.
    pub(crate) fn collect(&mut self, plan: &StepPlan, tables: &mut Tables, page_size: PageSize) {
        self.clear();
        for &row in &plan.closes {
            tables.close(row);
        }
        for open in &plan.opens {
            let row = open.row;
            let state = tables.open(open.clone());
            if state.sample.penalises() {
                self.counted.clear.push(row.0);
                for &token in state.earlier_output() {
                    self.counted.tokens.push([row.0, token]);
                }
            }
        }
        self.starts.push(0);
        for row in &plan.rows {
            self.take_pages(row, tables);
            self.take_tokens(row, tables, page_size);
            self.take_scored(row, tables);
            if row.sample != Sample::No {
                self.take_sampled(row, tables);
            }
        }
    }

    fn clear(&mut self) {
        *self = Self {
            ids: cleared(&mut self.ids),
            positions: cleared(&mut self.positions),
            slots: cleared(&mut self.slots),
            starts: cleared(&mut self.starts),
            lengths: cleared(&mut self.lengths),
            table_rows: cleared(&mut self.table_rows),
            ..Self::default()
        };
    }

    /// True when every row has one token and nothing of a prompt is scored: the kind of step that graphs hold.
    pub(crate) fn only_decodes(&self) -> bool {
        let sampled = self.sampled.indices.len();
        self.max_query == 1 && sampled == self.table_rows.len() && self.scored.is_empty()
    }

    /// True when all that is wanted of the step's logits is which of each row is the largest.
    pub(crate) fn takes_largest(&self) -> bool {
        let sampled = &self.sampled;
        let unread = self.scored.is_empty() && self.edits.is_empty() && sampled.top.is_none();
        unread
            && !sampled.params.is_empty()
            && sampled.params.iter().all(SampleParams::takes_largest)
    }

    /// A step of `rows` rows that all rest on the dummy page.
    pub(crate) fn rest(&mut self, rows: usize) {
        self.clear();
        self.starts.push(0);
        self.max_query = 1;
        self.pad(rows);
    }

    /// Fills a decoding step up to `rows` rows with the dummy row, whose results nobody reads.
    pub(crate) fn pad(&mut self, rows: usize) {
        let dummy = Row::DUMMY.0;
        for row in self.table_rows.len()..rows {
            self.ids.push(0);
            self.positions.push(0);
            self.slots.push(0);
            self.starts.push(row as u32 + 1);
            self.lengths.push(1);
            self.table_rows.push(dummy);
            self.sampled.indices.push(row as u32);
            self.sampled.table_rows.push(dummy);
            self.sampled.positions.push(0);
            self.sampled.params.push(SampleParams::GREEDY);
            self.sampled.temperatures.push(0.0);
            self.sampled.chosen.push(Vec::new());
        }
    }

    fn take_pages(&mut self, row: &RowPlan, tables: &mut Tables) {
        if row.pages.pages.is_empty() {
            return;
        }
        let state = tables.state_mut(row.row);
        state.pages.truncate(row.pages.at as usize);
        for &page in &row.pages.pages {
            let column = state.pages.len() as u32;
            self.pages.push([row.row.0, column, page.0]);
            state.pages.push(page);
        }
    }

    fn take_tokens(&mut self, row: &RowPlan, tables: &Tables, page_size: PageSize) {
        match &row.input {
            RowInput::Prompt(history, range) => {
                self.ids
                    .extend_from_slice(&history[range.start as usize..range.end as usize]);
            }
            RowInput::LastSampled => self.ids.push(ResolveTokens::LAST + row.row.0),
        }
        let pages = &tables.state(row.row).pages;
        for position in row.start..row.end() {
            self.positions.push(position);
            self.slots.push(page_size.slot(pages, position));
        }
        self.starts.push(self.ids.len() as u32);
        self.lengths.push(row.end());
        self.table_rows.push(row.row.0);
        self.max_query = self.max_query.max(row.tokens() as usize);
    }

    fn take_scored(&mut self, row: &RowPlan, tables: &Tables) {
        if row.scored.is_empty() {
            return;
        }
        let state = tables.state(row.row);
        let first = self.ids.len() as u32 - row.tokens();
        for position in row.scored.clone() {
            let asked = state
                .log_probs()
                .map(|asked| (asked.token_ids.as_slice(), asked.top as usize));
            let (chosen, top) = asked.unwrap_or((&[], 0));
            self.scored.push(ScoredToken {
                index: first + position - 1 - row.start,
                token: state.open.history[position as usize],
                chosen: chosen.to_vec(),
                top,
            });
        }
    }

    fn take_sampled(&mut self, row: &RowPlan, tables: &Tables) {
        let state = tables.state(row.row);
        let place = self.sampled.indices.len() as u32;
        let position = row.end() - state.open.prompt_len;
        let (stop, params) = (&state.open.stop, &state.open.params);
        if !stop.suppressed_at(position).is_empty() || !params.logit_bias.is_empty() {
            self.edits.push(RowEdits {
                place,
                position,
                stop: Arc::clone(stop),
                params: Arc::clone(params),
            });
        }
        let sampled = &mut self.sampled;
        sampled.indices.push(self.ids.len() as u32 - 1);
        sampled.table_rows.push(row.row.0);
        sampled.positions.push(position);
        sampled.params.push(state.sample);
        sampled.temperatures.push(state.sample.temperature);
        sampled.chosen.push(
            state
                .log_probs()
                .map_or_else(Vec::new, |asked| asked.token_ids.clone()),
        );
        if let Some(asked) = state.log_probs() {
            sampled.top = Some(sampled.top.unwrap_or(0).max(asked.top as usize));
        }
    }
}

impl RowEdits {
    /// Row, token, and the bits of what is added.
    pub(crate) fn each(&self) -> impl Iterator<Item = [u32; 3]> {
        let suppressed = self.stop.suppressed_at(self.position).iter();
        let suppressed = suppressed.map(|&token| (token, f32::NEG_INFINITY));
        let biased = self.params.logit_bias.iter().copied();
        let all = suppressed.chain(biased);
        all.map(|(token, value)| [self.place, token, value.to_bits()])
    }
}

fn cleared(list: &mut Vec<u32>) -> Vec<u32> {
    list.clear();
    std::mem::take(list)
}

/// Where an array lies in the staged bytes.
#[derive(Clone, Copy)]
pub(crate) struct Packed {
    offset: usize,
    rows: usize,
    cols: usize,
    dtype: DType,
}

impl Packed {
    /// The array on the device.
    pub(crate) fn view<'a>(&self, staged: View<'a>) -> View<'a> {
        staged.cast(self.offset, self.rows, self.cols, self.dtype)
    }
}

/// Lays arrays into staging memory one after the other; equal sizes give equal addresses.
#[derive(Default)]
pub(crate) struct Packer {
    bytes: Vec<u8>,
}

impl Packer {
    /// Every array starts at a multiple of this.
    pub(crate) const ALIGNMENT: usize = 64;

    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
    }

    /// Adds an array as one row.
    pub(crate) fn row<T: Element>(&mut self, values: &[T]) -> Packed {
        self.matrix(values, 1)
    }

    /// Adds an array as a matrix.
    pub(crate) fn matrix<T: Element>(&mut self, values: &[T], rows: usize) -> Packed {
        let offset = self.bytes.len().next_multiple_of(Self::ALIGNMENT);
        self.bytes.resize(offset, 0);
        self.bytes.extend_from_slice(bytemuck::cast_slice(values));
        let cols = values.len().checked_div(rows).unwrap_or(0);
        Packed {
            offset,
            rows,
            cols,
            dtype: T::DTYPE,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Copies everything to the device.
    pub(crate) fn send(&self, staging: &mut dyn Staging) -> Result<(), DeviceError> {
        staging.host()?[..self.bytes.len()].copy_from_slice(&self.bytes);
        staging.send(self.bytes.len())
    }
}
