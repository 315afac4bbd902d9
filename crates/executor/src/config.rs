use tensor::DType;

/// The limits that a rank's memory is sized by.
#[derive(Clone, Debug)]
pub struct ExecutorConfig {
    /// Rows that may be handed out; row 0 is the dummy and comes on top.
    pub max_rows: usize,
    /// Tokens of the largest step.
    pub max_step_tokens: usize,
    /// Pages that may be handed out; page 0 is the dummy and comes on top.
    pub pages: usize,
    /// Token positions in a page.
    pub page_size: usize,
    /// Tokens a sequence may have.
    pub max_sequence_tokens: usize,
    /// Numbers that are scores of prompt tokens in one step, at most.
    pub max_step_scores: usize,
    /// Steps that may be in flight at once.
    pub run_ahead: usize,
    /// Type of keys and values.
    pub kv_dtype: DType,
}

impl ExecutorConfig {
    /// Columns of the page table.
    pub fn max_pages_per_row(&self) -> usize {
        self.max_sequence_tokens.div_ceil(self.page_size) + 1
    }

    /// Rows of the device tables.
    pub fn table_rows(&self) -> usize {
        self.max_rows + 1
    }

    /// Token positions of the KV memory.
    pub fn slots(&self) -> usize {
        (self.pages + 1) * self.page_size
    }
}
