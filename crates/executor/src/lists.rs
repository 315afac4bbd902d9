use std::collections::BTreeMap;
use std::sync::Arc;

use ops::program::{Leaves, Output, Sampled};
use ops::{Device, Lowered, Program, StepClass};

use crate::ExecutorConfig;
use crate::sampler::SCORED_AT_ONCE;

/// How many tokens a step has, and what is read of it.
#[derive(Clone, Copy)]
pub(crate) struct StepShape {
    pub(crate) tokens: usize,
    /// Tokens that another one is sampled after.
    pub(crate) sampled: usize,
    /// Whether prompt tokens are scored, from hidden rows of whatever tokens.
    pub(crate) scores: bool,
}

/// What a device runs for steps of each class.
pub(crate) struct Lists {
    program: Arc<Program>,
    by_class: BTreeMap<StepClass, Lowered>,
    /// From hidden rows to logits, where prompt tokens are scored.
    head: Lowered,
    max_tokens: usize,
    max_rows: usize,
}

impl Lists {
    /// Lists of all steps that are not captured; they say how much memory steps need.
    pub(crate) fn new(
        program: &Arc<Program>,
        device: &dyn Device,
        config: &ExecutorConfig,
    ) -> Self {
        let head_class = StepClass {
            tokens: SCORED_AT_ONCE,
            is_exact: false,
            sampled: Sampled::All,
            leaves: Leaves::Logits,
            hidden: false,
        };
        let mut lists = Self {
            head: device.lower(Arc::new(program.head()), &head_class),
            program: Arc::clone(program),
            by_class: BTreeMap::new(),
            max_tokens: config.max_step_tokens,
            max_rows: config.max_rows.min(config.max_step_tokens),
        };
        let kinds = [Sampled::None, Sampled::Some(0), Sampled::All];
        for sampled in kinds {
            for leaves in Leaves::ALL {
                lists.lower(device, lists.eager(sampled, leaves, false));
            }
            lists.lower(device, lists.eager(sampled, Leaves::Logits, true));
        }
        lists
    }

    /// The class of a step that is not captured.
    pub(crate) fn class(&self, shape: StepShape, leaves: Leaves) -> StepClass {
        let sampled = match shape.sampled {
            0 => Sampled::None,
            sampled if sampled == shape.tokens => Sampled::All,
            _ => Sampled::Some(self.max_rows),
        };
        self.eager(sampled, leaves, shape.scores)
    }

    /// The class of a captured step of so many rows.
    pub(crate) fn captured(rows: usize, leaves: Leaves) -> StepClass {
        StepClass {
            tokens: rows,
            is_exact: true,
            sampled: Sampled::All,
            leaves,
            hidden: false,
        }
    }

    fn eager(&self, sampled: Sampled, leaves: Leaves, hidden: bool) -> StepClass {
        let (tokens, sampled) = match sampled {
            Sampled::All => (self.max_rows, Sampled::All),
            Sampled::Some(_) => (self.max_tokens, Sampled::Some(self.max_rows)),
            Sampled::None => (self.max_tokens, Sampled::None),
        };
        StepClass {
            tokens,
            is_exact: false,
            sampled,
            leaves,
            hidden,
        }
    }

    /// Decides how steps of a class are run.
    pub(crate) fn lower(&mut self, device: &dyn Device, class: StepClass) {
        let program = Arc::new(self.program.for_class(&class));
        self.by_class.insert(class, device.lower(program, &class));
    }

    /// What is run for a class that was lowered.
    pub(crate) fn of(&self, class: &StepClass) -> &Lowered {
        &self.by_class[class]
    }

    /// The head alone.
    pub(crate) fn head(&self) -> &Lowered {
        &self.head
    }

    /// Columns of hidden rows.
    pub(crate) fn hidden(&self) -> usize {
        let hidden = self.program.output(Output::Hidden);
        let hidden = hidden.expect("a model leaves hidden rows");
        let cols = self.program.value(hidden).shape.cols;
        cols.expect("hidden rows are a matrix")
    }

    /// Bytes of the largest arena.
    pub(crate) fn bytes(&self) -> usize {
        let lists = self.by_class.values();
        lists.map(|list| list.layout.bytes()).max().unwrap_or(0)
    }
}
