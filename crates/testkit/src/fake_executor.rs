//! An executor without a model: tokens come from a function of the history.

use std::collections::{BTreeMap, VecDeque};

use executor::{DeviceLost, Executor};
use sampling::TokenLogProbs;
use scheduler::{
    Row, RowInput, RowOpen, RowOutcome, RowPlan, Sample, SampledToken, StepOutcome, StepPlan, Token,
};

/// What follows a history.
pub type NextToken = Box<dyn FnMut(&[Token]) -> Token + Send>;

/// Runs plans by keeping every row's history and asking a function for the next token.
///
/// Checks what a real device could not: inputs continue the row's history without gap or overlap.
pub struct FakeExecutor {
    next: NextToken,
    submitted: VecDeque<StepPlan>,
    rows: BTreeMap<Row, FakeRow>,
    /// Steps after which the device is lost.
    steps_left: Option<usize>,
}

struct FakeRow {
    open: RowOpen,
    history: Vec<Token>,
}

impl FakeExecutor {
    /// An executor whose model is `next`.
    pub fn new(next: impl FnMut(&[Token]) -> Token + Send + 'static) -> Self {
        Self {
            next: Box::new(next),
            submitted: VecDeque::new(),
            rows: BTreeMap::new(),
            steps_left: None,
        }
    }

    /// An executor whose model continues with token + 1, below `vocabulary`.
    pub fn counting(vocabulary: Token) -> Self {
        Self::new(move |history| (history.last().expect("a prompt has tokens") + 1) % vocabulary)
    }

    /// Loses the device after `steps` steps.
    #[must_use]
    pub fn lost_after(mut self, steps: usize) -> Self {
        self.steps_left = Some(steps);
        self
    }

    fn run_row(&mut self, plan: &RowPlan) -> RowOutcome {
        let row = self
            .rows
            .get_mut(&plan.row)
            .expect("a plan names open rows");
        match &plan.input {
            RowInput::Prompt(history, range) => {
                assert_eq!(
                    range.start, plan.start,
                    "prompt input begins at the row's start"
                );
                row.history = history[..range.end as usize].to_vec();
            }
            RowInput::LastSampled => {
                assert_eq!(
                    row.history.len(),
                    plan.start as usize + 1,
                    "one sampled token is waiting to be read"
                );
            }
        }
        let log_probs = |token| TokenLogProbs {
            token,
            log_prob: -1.0,
            top: vec![(token, -1.0)],
            chosen: Vec::new(),
        };
        let prompt_log_probs = plan
            .scored
            .clone()
            .map(|position| log_probs(row.open.history[position as usize]))
            .collect();
        let mut sampled = Vec::new();
        if plan.sample != Sample::No {
            let token = (self.next)(&row.history);
            row.history.push(token);
            let wanted = row.open.log_probs.is_some();
            sampled.push(SampledToken {
                token,
                log_probs: wanted.then(|| log_probs(token)),
            });
        }
        RowOutcome {
            row: plan.row,
            sampled,
            prompt_log_probs,
        }
    }
}

impl Executor for FakeExecutor {
    fn submit(&mut self, plan: StepPlan) -> Result<(), DeviceLost> {
        self.submitted.push_back(plan);
        Ok(())
    }

    fn next_outcome(&mut self) -> Result<StepOutcome, DeviceLost> {
        if let Some(left) = &mut self.steps_left {
            *left = left
                .checked_sub(1)
                .ok_or_else(|| DeviceLost::because("the fake device was told to break"))?;
        }
        let plan = self
            .submitted
            .pop_front()
            .ok_or_else(|| DeviceLost::because("no step was submitted"))?;
        for row in &plan.closes {
            self.rows.remove(row);
        }
        for open in &plan.opens {
            self.rows.insert(
                open.row,
                FakeRow {
                    open: open.clone(),
                    history: open.history.to_vec(),
                },
            );
        }
        let rows = plan.rows.iter().map(|row| self.run_row(row)).collect();
        Ok(StepOutcome { id: plan.id, rows })
    }
}
