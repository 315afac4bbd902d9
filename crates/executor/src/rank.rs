use kv::Page;
use models::Model;
use ops::program::{Arena, Leaves};
use ops::{CopyPages, CountTokens, Device, OpError, Readback, StepClass, UpdatePages};
use scheduler::{PageCopy, PageSize, StepPlan};
use tensor::{Buffer, DType, Scratch, View};

use crate::channel::Channel;
use crate::compute::{Compute, StagedTokens, StepMemory};
use crate::graphs::Graphs;
use crate::inputs::StepInputs;
use crate::kv_memory::KvMemory;
use crate::lists::{Lists, StepShape};
use crate::memory_plan::{TransferSizes, service_bytes};
use crate::outcome::{OutcomeShape, Pending};
use crate::sampler::{Results, Sampler, StagedSampling};
use crate::tables::Tables;
use crate::{DeviceLost, ExecutorConfig, MemoryPlan};

/// One device, the model's weights on it, and the memory that steps use.
pub struct Rank {
    device: Box<dyn Device>,
    model: Model,
    /// What steps run.
    lists: Lists,
    page_size: PageSize,
    /// Values of steps.
    arena: Buffer,
    /// Tokens that were drawn from logits.
    drawn: Buffer,
    /// For what is done with what steps leave.
    scratch: Scratch,
    kv: KvMemory,
    tables: Tables,
    /// What every step reads, at addresses that never change.
    inputs: Channel,
    /// What some steps read besides, in parts where it is much.
    extras: Channel,
    /// Memory for the results of steps, until it is handed out: one for each in flight and one to fill.
    readbacks: Vec<Box<dyn Readback>>,
    step: StepInputs,
    graphs: Graphs,
    memory: MemoryPlan,
}

/// Where the arrays of a step were staged.
struct Staged {
    tokens: StagedTokens,
    sampling: StagedSampling,
}

impl Rank {
    /// Takes all memory that steps will ever need.
    pub fn new(
        device: Box<dyn Device>,
        model: Model,
        config: &ExecutorConfig,
    ) -> Result<Self, OpError> {
        let lists = Lists::new(model.program(), device.as_ref(), config);
        let (arena_bytes, service_bytes) = (lists.bytes(), service_bytes(&lists, config));
        let arena = device.allocate(arena_bytes, "values of a step")?;
        let drawn = device.allocate(config.max_rows * DType::U32.size(), "drawn tokens")?;
        let scratch = Scratch::new(device.allocate(service_bytes, "scratch")?);
        let kv = KvMemory::allocate(device.as_ref(), model.spec(), config)?;
        let tables = Tables::allocate(device.as_ref(), config, model.spec().vocabulary)?;
        let transfers = TransferSizes::of(config);
        let memory = MemoryPlan {
            weights: model.weight_bytes(),
            folded: model.folded_bytes(),
            scratch: arena_bytes + service_bytes,
            tables: tables.bytes(),
            kv: kv.bytes(),
            transfers: transfers.together(config.run_ahead),
        };
        let readbacks = (0..=config.run_ahead).map(|_| device.readback(transfers.readback));
        let page_size =
            PageSize::new(config.page_size as u32).expect("a page has at least one token");
        Ok(Self {
            inputs: Channel::new(device.as_ref(), transfers.inputs)?,
            extras: Channel::new(device.as_ref(), transfers.extras)?,
            readbacks: readbacks.collect::<Result<_, _>>()?,
            device,
            model,
            lists,
            page_size,
            arena,
            drawn,
            scratch,
            kv,
            tables,
            step: StepInputs::default(),
            graphs: Graphs::default(),
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

    /// Captures decoding steps of these row counts; true when the device keeps graphs.
    ///
    /// `progress` is told the row count before each capture.
    pub fn capture(
        &mut self,
        buckets: &[usize],
        progress: &mut dyn FnMut(usize),
    ) -> Result<bool, DeviceLost> {
        for &rows in buckets.iter().rev() {
            progress(rows);
            self.step.rest(rows);
            let staged = self.stage()?;
            for leaves in Leaves::ALL {
                let class = Lists::captured(rows, leaves);
                self.lists.lower(self.device.as_ref(), class);
                // Once for real: whatever a library sets up at a first call must not be captured.
                self.with_step(&staged, &class, |_, run| run())?;
                let captured =
                    self.with_step(&staged, &class, |device, run| device.capture(run))?;
                let Some(graph) = captured else {
                    return Ok(false);
                };
                self.graphs.insert(rows, leaves, graph);
            }
        }
        Ok(!buckets.is_empty())
    }

    /// Hands over the device and a step on it, from staged inputs to what it leaves, launch by launch.
    fn with_step<R>(
        &mut self,
        staged: &Staged,
        class: &StepClass,
        use_step: impl FnOnce(&dyn Device, &mut dyn FnMut() -> Result<(), OpError>) -> R,
    ) -> R {
        let caches = self.kv.caches();
        let bytes = self.arena.bytes();
        let compute = Compute {
            device: self.device.as_ref(),
            weights: self.model.weights(),
            list: self.lists.of(class),
            arena: Arena::new(self.arena.view_mut(0, 1, bytes, DType::U8)),
            caches: &caches,
            tables: &self.tables,
            inputs: self.inputs.device(),
            staged: &staged.tokens,
            sampling: &staged.sampling,
            page_size: self.page_size.tokens() as usize,
        };
        use_step(compute.device, &mut || compute.run())
    }

    /// Hands out the memory for the results of steps.
    pub(crate) fn take_readbacks(&mut self) -> Vec<Box<dyn Readback>> {
        std::mem::take(&mut self.readbacks)
    }

    /// Enqueues one step.
    pub(crate) fn run(
        &mut self,
        plan: &StepPlan,
        mut readback: Box<dyn Readback>,
    ) -> Result<Pending, DeviceLost> {
        self.step.collect(plan, &mut self.tables, self.page_size);
        let bucket = if self.step.only_decodes() {
            self.graphs.bucket(plan.rows.len())
        } else {
            None
        };
        if let Some(rows) = bucket {
            self.step.pad(rows);
        }
        let leaves = if self.step.takes_largest() {
            Leaves::Tokens
        } else {
            Leaves::Logits
        };
        let mut shape = OutcomeShape::of(plan, &self.tables);
        self.copy_pages(&plan.copies)?;
        let staged = self.stage()?;
        self.update_tables()?;
        let class = match bucket {
            Some(rows) => Lists::captured(rows, leaves),
            None => self.lists.class(staged.tokens.shape, leaves),
        };
        self.compute(&staged, &class, bucket)?;
        self.sample(&staged, &class, readback.as_mut(), &mut shape)?;
        readback.seal()?;
        Ok(Pending {
            id: plan.id,
            readback,
            shape,
        })
    }

    fn stage(&mut self) -> Result<Staged, DeviceLost> {
        let (step, packer) = (&self.step, self.inputs.pack());
        let tokens = StagedTokens {
            ids: packer.row(&step.ids),
            positions: packer.row(&step.positions),
            slots: packer.row(&step.slots),
            starts: packer.row(&step.starts),
            lengths: packer.row(&step.lengths),
            table_rows: packer.row(&step.table_rows),
            indices: packer.row(&step.sampled.indices),
            shape: StepShape {
                tokens: step.ids.len(),
                sampled: step.sampled.indices.len(),
                scores: !step.scored.is_empty(),
            },
            max_query: step.max_query,
        };
        let staged = Staged {
            tokens,
            sampling: StagedSampling::pack(&step.sampled, packer),
        };
        self.inputs.send()?;
        Ok(staged)
    }

    fn update_tables(&mut self) -> Result<(), DeviceLost> {
        let (kernels, extras, step) = (self.device.kernels(), &mut self.extras, &self.step);
        let Tables {
            pages: table,
            counts,
            rows,
            columns,
            vocabulary,
            ..
        } = &mut self.tables;
        let written = step.pages.iter().copied();
        extras.in_parts(written, |[rows_of, columns_of, pages], _| {
            Ok(kernels.update_pages(UpdatePages {
                rows: rows_of,
                columns: columns_of,
                pages,
                table: table.view_mut(0, *rows, *columns, DType::U32),
            })?)
        })?;
        let mut count = |clear: View<'_>, [rows_of, tokens]: [View<'_>; 2]| {
            Ok(kernels.count_tokens(CountTokens {
                clear,
                rows: rows_of,
                tokens,
                counts: counts.view_mut(0, *rows, *vocabulary, DType::U16),
            })?)
        };
        let cleared = step.counted.clear.iter().map(|&row| [row]);
        extras.in_parts(cleared, |[clear], nothing| count(clear, [nothing; 2]))?;
        let counted = step.counted.tokens.iter().copied();
        extras.in_parts(counted, |tokens, nothing| count(nothing, tokens))
    }

    fn copy_pages(&mut self, copies: &[PageCopy]) -> Result<(), DeviceLost> {
        let (kernels, size) = (self.device.kernels(), self.page_size.tokens());
        let slot = |page: Page| page.index() as u32 * size;
        let entries = copies
            .iter()
            .map(|copy| [slot(copy.from), slot(copy.to), copy.tokens]);
        let memory = &mut self.kv;
        self.extras.in_parts(entries, |[from, to, tokens], _| {
            let planes = memory.planes();
            Ok(kernels.copy_pages(CopyPages {
                from,
                to,
                tokens,
                planes,
                memory: memory.view_mut(),
            })?)
        })
    }

    /// From staged inputs to what the step leaves: by replaying the graph of `bucket` rows, or launch by launch.
    fn compute(
        &mut self,
        staged: &Staged,
        class: &StepClass,
        bucket: Option<usize>,
    ) -> Result<(), DeviceLost> {
        if let Some(rows) = bucket {
            return Ok(self.graphs.replay(rows, class.leaves)?);
        }
        Ok(self.with_step(staged, class, |_, run| run())?)
    }

    /// From what the step left to tokens on their way to the host.
    fn sample(
        &mut self,
        staged: &Staged,
        class: &StepClass,
        readback: &mut dyn Readback,
        shape: &mut OutcomeShape,
    ) -> Result<(), DeviceLost> {
        let list = self.lists.of(class);
        let bytes = self.arena.bytes();
        let arena = Arena::new(self.arena.view_mut(0, 1, bytes, DType::U8));
        let memory = StepMemory::of(list, arena, staged.tokens.shape, &mut self.drawn);
        let mut results = Results::new(readback, shape);
        if class.leaves == Leaves::Tokens {
            return results.fetch_tokens(memory.tokens.view());
        }
        let mut sampler = Sampler {
            device: self.device.as_ref(),
            kernels: self.device.kernels(),
            scratch: &self.scratch,
            head: self.lists.head(),
            weights: self.model.weights(),
            inputs: self.inputs.device(),
            extras: &mut self.extras,
        };
        if let Some(logits) = memory.logits {
            let (step, tables) = ((&self.step, &staged.sampling), &mut self.tables);
            sampler.sample((logits, memory.tokens), step, tables, &mut results)?;
        }
        match memory.hidden {
            Some(hidden) => sampler.score_prompt(hidden.view(), &self.step.scored, &mut results),
            None => Ok(()),
        }
    }
}
