use super::{Axis, Input, Op, Output, Program, Val};

/// Which tokens of a step another one is sampled after.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Sampled {
    /// None: the step only fills caches, or leaves hidden rows.
    None,
    /// Some, at most so many.
    Some(usize),
    /// Every token.
    All,
}

/// What the executor reads of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Leaves {
    /// Logits, from which rows draw in one way or another.
    Logits,
    /// Tokens: every row took its largest logit.
    Tokens,
}

impl Leaves {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Logits, Self::Tokens];
}

/// Steps that run the same list of launches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct StepClass {
    /// Tokens, at most; exactly so many where `is_exact`.
    pub tokens: usize,
    /// True of captured steps.
    pub is_exact: bool,
    /// Which tokens are sampled after.
    pub sampled: Sampled,
    /// What rows leave.
    pub leaves: Leaves,
    /// The hidden rows of all tokens are read: prompts are scored.
    pub hidden: bool,
}

impl StepClass {
    /// Rows along an axis, at most.
    pub fn rows(&self, axis: Axis) -> usize {
        match (axis, self.sampled) {
            // the executor's tables are no memory of a step
            (Axis::Sampled, Sampled::None) | (Axis::TableRows, _) => 0,
            (Axis::Sampled, Sampled::Some(rows)) => rows,
            (Axis::Tokens, _) | (Axis::Sampled, Sampled::All) => self.tokens,
        }
    }

    fn outputs(&self) -> Vec<Output> {
        let mut outputs = Vec::new();
        if self.hidden {
            outputs.push(Output::Hidden);
        }
        if self.sampled != Sampled::None {
            outputs.push(match self.leaves {
                Leaves::Logits => Output::Logits,
                Leaves::Tokens => Output::Tokens,
            });
        }
        outputs
    }
}

impl Program {
    /// What is left of the program for steps of a class: ops on rows that nobody reads are gone.
    #[must_use]
    pub fn for_class(&self, class: &StepClass) -> Self {
        let mut program = self.clone();
        let outputs = class.outputs();
        program.outputs.retain(|(name, _)| outputs.contains(name));
        if !outputs.contains(&Output::Tokens) {
            program
                .nodes
                .retain(|node| !matches!(node.op, Op::Sample(_)));
        }
        // scores are read after the tokens were drawn too
        match class.sampled {
            Sampled::All => program.take_all_rows(),
            Sampled::Some(_) if !class.hidden => program.narrow(),
            Sampled::Some(_) | Sampled::None => {}
        }
        program.prune();
        program
    }

    /// The head alone: from hidden rows to logits.
    #[must_use]
    pub fn head(&self) -> Self {
        let mut program = self.clone();
        let (place, _, rows) = program.sampled_gather();
        program.nodes.drain(..=place);
        program
            .nodes
            .retain(|node| !matches!(node.op, Op::Sample(_)));
        program.values[rows.index()].input = Some(Input::HiddenRows);
        program.outputs.retain(|(name, _)| *name == Output::Logits);
        program.prune();
        program
    }

    /// The op that takes the rows that are sampled after: its place, what it reads and what it leaves.
    pub(super) fn sampled_gather(&self) -> (usize, Val, Val) {
        let mut nodes = self.nodes.iter().enumerate();
        let found = nodes.find_map(|(place, node)| match &node.op {
            Op::GatherRows(gather) if self.is_input(gather.indices.value, Input::SampledPlaces) => {
                Some((place, gather.x.value, gather.out))
            }
            _ => None,
        });
        found.expect("a model takes the rows that are sampled after")
    }

    fn is_input(&self, value: Val, input: Input) -> bool {
        self.value(value).input == Some(input)
    }

    /// Every token is sampled after: nothing has to be gathered.
    fn take_all_rows(&mut self) {
        let (place, all, some) = self.sampled_gather();
        self.nodes.remove(place);
        for node in &mut self.nodes {
            node.op = node
                .op
                .rename(&mut |value| if value == some { all } else { value });
        }
        for value in &mut self.values {
            if value.shape.axis == Axis::Sampled && value.input.is_none() {
                value.shape.axis = Axis::Tokens;
            }
        }
    }
}
