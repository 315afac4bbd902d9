use models::{Model, Step};
use ops::op::{CountTokens, UpdatePages};
use ops::{Device, DeviceError, RaggedBatch, Readback, ResolveTokens, Staging};
use scheduler::{PageCopy, PageSize, StepPlan};
use tensor::{DType, Scratch, View};

use crate::inputs::{Packed, Packer, StepInputs};
use crate::kv_memory::KvMemory;
use crate::memory_plan::MAX_SCORES;
use crate::outcome::{OutcomeShape, Pending};
use crate::sampler::{SCORED_AT_ONCE, Sampler, StagedSampling, StagedScores};
use crate::tables::Tables;
use crate::{DeviceLost, ExecutorConfig, MemoryPlan, measure_scratch};

/// One device, the model's weights on it, and the memory that steps use.
pub struct Rank {
    device: Box<dyn Device>,
    model: Box<dyn Model>,
    page_size: PageSize,
    scratch: Scratch,
    kv: KvMemory,
    tables: Tables,
    staging: Box<dyn Staging>,
    staging_bytes: usize,
    /// What the results of any step take that scores no prompt.
    readback_bytes: usize,
    inputs: StepInputs,
    packer: Packer,
    memory: MemoryPlan,
}

/// Where the arrays that every step has were staged.
struct Staged {
    ids: Packed,
    positions: Packed,
    slots: Packed,
    starts: Packed,
    lengths: Packed,
    table_rows: Packed,
    sampling: StagedSampling,
    scores: Vec<StagedScores>,
    pages: Option<[Packed; 3]>,
    counted: Option<[Packed; 3]>,
}

impl Rank {
    /// Takes all memory that steps will ever need.
    pub fn new(
        device: Box<dyn Device>,
        model: Box<dyn Model>,
        config: &ExecutorConfig,
    ) -> Result<Self, DeviceLost> {
        let activation = device.info().activation;
        let scratch_bytes = measure_scratch(model.as_ref(), config, activation)?;
        let scratch = Scratch::new(device.allocate(scratch_bytes, "scratch")?);
        let kv = KvMemory::allocate(device.as_ref(), model.spec(), config)?;
        let tables = Tables::allocate(device.as_ref(), config, model.spec().vocabulary)?;
        let staging_bytes = 64 * 1024 + 16 * config.max_step_tokens + 128 * config.max_rows;
        let staging = device.staging(staging_bytes)?;
        let memory = MemoryPlan {
            weights: model.weight_bytes(),
            scratch: scratch_bytes,
            tables: tables.bytes(),
            kv: kv.bytes(),
        };
        let page_size = PageSize::new(config.page_size as u32)
            .ok_or_else(|| DeviceLost::because("a page has at least one token"))?;
        Ok(Self {
            device,
            model,
            page_size,
            scratch,
            kv,
            tables,
            staging,
            staging_bytes,
            readback_bytes: sampled_bytes(config.max_rows),
            inputs: StepInputs::default(),
            packer: Packer::default(),
            memory,
        })
    }

    /// What its memory went to.
    pub fn memory(&self) -> &MemoryPlan {
        &self.memory
    }

    /// The device it runs on.
    pub fn device(&self) -> &dyn Device {
        self.device.as_ref()
    }

    /// Memory for the results of a step; one is needed for each step in flight.
    pub(crate) fn new_readback(&self) -> Result<Box<dyn Readback>, DeviceError> {
        self.device.readback(self.readback_bytes)
    }

    /// A step that scores much of a prompt gets more room; later steps keep it.
    fn with_room(&self, readback: Box<dyn Readback>) -> Result<Box<dyn Readback>, DeviceError> {
        let scored = &self.inputs.scored;
        if scored.is_empty() {
            return Ok(readback);
        }
        let columns = scored.iter().map(|token| 2 * token.top + token.chosen.len() + 1);
        let widest = columns.max().unwrap_or(0);
        self.device.readback(self.readback_bytes + scored_bytes(scored.len(), widest))
    }

    /// Enqueues one step.
    pub(crate) fn run(
        &mut self,
        plan: &StepPlan,
        readback: Box<dyn Readback>,
    ) -> Result<Pending, DeviceLost> {
        self.inputs.collect(plan, &mut self.tables, self.page_size);
        let mut readback = self.with_room(readback)?;
        let mut shape = OutcomeShape::of(plan, &self.tables);
        self.copy_pages(&plan.copies)?;
        let staged = self.stage()?;
        self.update_tables(&staged)?;
        self.forward_and_sample(&staged, readback.as_mut(), &mut shape)?;
        readback.seal()?;
        Ok(Pending {
            id: plan.id,
            readback,
            shape,
        })
    }

    fn stage(&mut self) -> Result<Staged, DeviceLost> {
        let (inputs, packer) = (&self.inputs, &mut self.packer);
        packer.clear();
        let pages = &inputs.pages;
        let counted = &inputs.counted;
        let staged = Staged {
            ids: packer.row(&inputs.ids),
            positions: packer.row(&inputs.positions),
            slots: packer.row(&inputs.slots),
            starts: packer.row(&inputs.starts),
            lengths: packer.row(&inputs.lengths),
            table_rows: packer.row(&inputs.table_rows),
            sampling: StagedSampling::pack(inputs, packer),
            scores: StagedScores::pack(&inputs.scored, packer),
            pages: (!pages.rows.is_empty()).then(|| {
                [
                    packer.row(&pages.rows),
                    packer.row(&pages.columns),
                    packer.row(&pages.pages),
                ]
            }),
            counted: (!counted.clear.is_empty()).then(|| {
                [
                    packer.row(&counted.clear),
                    packer.row(&counted.rows),
                    packer.row(&counted.tokens),
                ]
            }),
        };
        if packer.len() > self.staging_bytes {
            self.staging_bytes = packer.len().next_power_of_two();
            self.staging = self.device.staging(self.staging_bytes)?;
        }
        packer.send(self.staging.as_mut())?;
        Ok(staged)
    }

    fn update_tables(&mut self, staged: &Staged) -> Result<(), DeviceLost> {
        let (kernels, device) = (self.device.kernels(), self.staging.device());
        if let Some([rows, columns, pages]) = &staged.pages {
            kernels.update_pages(UpdatePages {
                rows: rows.view(device),
                columns: columns.view(device),
                pages: pages.view(device),
                table: self.tables.pages.view_mut(
                    0,
                    self.tables.rows,
                    self.tables.columns,
                    DType::U32,
                ),
            })?;
        }
        if let Some([clear, rows, tokens]) = &staged.counted {
            let (table_rows, vocabulary) = (self.tables.rows, self.tables.vocabulary);
            kernels.count_tokens(CountTokens {
                clear: clear.view(device),
                rows: rows.view(device),
                tokens: tokens.view(device),
                counts: self
                    .tables
                    .counts
                    .view_mut(0, table_rows, vocabulary, DType::U16),
            })?;
        }
        Ok(())
    }

    fn copy_pages(&mut self, copies: &[PageCopy]) -> Result<(), DeviceLost> {
        let size = self.page_size.tokens() as usize;
        for copy in copies {
            let tokens = copy.tokens as usize;
            let (from, to) = (copy.from.index() * size, copy.to.index() * size);
            for matrix in self.kv.matrices() {
                let (source, destination) = two_row_ranges(matrix, from, to, tokens);
                self.device.copy(source, destination)?;
            }
        }
        Ok(())
    }

    fn forward_and_sample(
        &mut self,
        staged: &Staged,
        readback: &mut dyn Readback,
        shape: &mut OutcomeShape,
    ) -> Result<(), DeviceLost> {
        let kernels = self.device.kernels();
        let inputs = self.staging.device();
        let activation = self.device.info().activation;
        let scope = self.scratch.scope();
        let tokens = self.inputs.ids.len();
        let mut ids = scope.matrix(1, tokens, DType::U32);
        kernels.resolve_tokens(ResolveTokens {
            staged: staged.ids.view(inputs),
            last: self.tables.last.view(0, 1, self.tables.rows, DType::U32),
            out: ids.reborrow(),
        })?;
        let mut hidden = scope.matrix(tokens, self.model.spec().hidden, activation);
        let caches = self.kv.caches();
        let step = Step {
            kernels,
            scratch: &self.scratch,
            dtype: activation,
            ids: ids.view(),
            positions: staged.positions.view(inputs),
            slots: staged.slots.view(inputs),
            batch: RaggedBatch {
                starts: staged.starts.view(inputs),
                lengths: staged.lengths.view(inputs),
                table_rows: staged.table_rows.view(inputs),
                page_table: self.tables.pages.view(
                    0,
                    self.tables.rows,
                    self.tables.columns,
                    DType::U32,
                ),
                page_size: self.page_size.tokens() as usize,
                max_query: self.inputs.max_query,
            },
            kv: &caches,
        };
        self.model.forward(&step, hidden.reborrow())?;
        let mut sampler = Sampler {
            kernels,
            scratch: &self.scratch,
            model: self.model.as_ref(),
            hidden: hidden.view(),
            staged: inputs,
            fetched: 0,
        };
        sampler.sample(&staged.sampling, &mut self.tables, readback, shape)?;
        sampler.score_prompt(
            &staged.scores,
            readback,
            shape,
            self.model.spec().vocabulary,
        )
    }
}

/// Gaps between the blocks of a readback.
const GAPS: usize = 64;

/// Bytes for the tokens of `rows` sampled rows and their scores.
fn sampled_bytes(rows: usize) -> usize {
    4 * rows * (2 * MAX_SCORES + 2) + GAPS
}

/// Bytes for the scores of `tokens` prompt tokens, `columns` numbers each.
fn scored_bytes(tokens: usize, columns: usize) -> usize {
    let blocks = tokens.div_ceil(SCORED_AT_ONCE);
    blocks * (4 * SCORED_AT_ONCE * columns + GAPS)
}

/// Two ranges of one matrix that do not overlap: one to read, one to write.
fn two_row_ranges(
    matrix: tensor::ViewMut<'_>,
    from: usize,
    to: usize,
    rows: usize,
) -> (View<'_>, tensor::ViewMut<'_>) {
    if from < to {
        let (upper, lower) = matrix.split_rows(to);
        (
            upper.into_view().row_range(from..from + rows),
            lower.row_range(0..rows),
        )
    } else {
        let (upper, lower) = matrix.split_rows(from);
        (
            lower.into_view().row_range(0..rows),
            upper.row_range(to..to + rows),
        )
    }
}
