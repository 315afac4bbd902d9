use std::sync::Arc;

use ops::{Device, DeviceError, SampleParams};
use sampling::LogProbRequest;
use scheduler::{Page, Row, RowOpen, Token};
use tensor::{Buffer, DType};

use crate::ExecutorConfig;

/// What a rank keeps for a row while it lives.
pub(crate) struct RowState {
    pub(crate) open: RowOpen,
    pub(crate) sample: SampleParams,
    /// The host's copy of the row's page table.
    pub(crate) pages: Vec<Page>,
}

impl RowState {
    fn new(open: RowOpen) -> Self {
        let params = &open.params;
        let sample = SampleParams {
            seed: choice_seed(open.seed, open.choice),
            temperature: if params.is_greedy() {
                0.0
            } else {
                params.temperature
            },
            top_p: params.top_p,
            min_p: params.min_p,
            top_k: params.top_k.unwrap_or(u32::MAX),
            frequency: params.frequency_penalty,
            presence: params.presence_penalty,
            repetition: params.repetition_penalty,
            reserved: 0,
        };
        Self {
            open,
            sample,
            pages: Vec::new(),
        }
    }

    /// Tokens that were generated before the row was opened (after a retraction).
    pub(crate) fn earlier_output(&self) -> &[Token] {
        &self.open.history[self.open.prompt_len as usize..]
    }

    pub(crate) fn log_probs(&self) -> Option<&Arc<LogProbRequest>> {
        self.open.log_probs.as_ref()
    }
}

/// Choices of one request draw different numbers; the first draws those of the seed itself.
fn choice_seed(seed: u64, choice: u32) -> u64 {
    seed ^ u64::from(choice).wrapping_mul(0x9E37_79B9_7F4A_7C15)
}

/// Device tables with a place for every row, and the host's knowledge of who is in it.
pub(crate) struct Tables {
    /// `[1, rows]` u32: the last sampled token.
    pub(crate) last: Buffer,
    /// `[rows, pages]` u32.
    pub(crate) pages: Buffer,
    /// `[rows, vocabulary]` u16: how often each token was produced; rows without penalties are not used.
    pub(crate) counts: Buffer,
    pub(crate) rows: usize,
    pub(crate) columns: usize,
    pub(crate) vocabulary: usize,
    states: Vec<Option<RowState>>,
}

impl Tables {
    pub(crate) fn allocate(
        device: &dyn Device,
        config: &ExecutorConfig,
        vocabulary: usize,
    ) -> Result<Self, DeviceError> {
        let (rows, columns) = (config.table_rows(), config.max_pages_per_row());
        Ok(Self {
            last: device.allocate(rows * DType::U32.size(), "last tokens")?,
            pages: device.allocate(rows * columns * DType::U32.size(), "the page table")?,
            counts: device.allocate(rows * vocabulary * DType::U16.size(), "token counts")?,
            rows,
            columns,
            vocabulary,
            states: (0..rows).map(|_| None).collect(),
        })
    }

    pub(crate) fn close(&mut self, row: Row) {
        self.states[row.index()] = None;
    }

    pub(crate) fn state_mut(&mut self, row: Row) -> &mut RowState {
        self.states[row.index()]
            .as_mut()
            .expect("a plan names only rows that are open")
    }

    pub(crate) fn open(&mut self, open: RowOpen) -> &RowState {
        let row = open.row.index();
        self.states[row].insert(RowState::new(open))
    }

    pub(crate) fn state(&self, row: Row) -> &RowState {
        self.states[row.index()]
            .as_ref()
            .expect("a plan names only rows that are open")
    }

    pub(crate) fn bytes(&self) -> usize {
        self.last.bytes() + self.pages.bytes() + self.counts.bytes()
    }
}
