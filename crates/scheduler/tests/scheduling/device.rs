//! A device that remembers what is in every slot and believes nothing it is not told.

use std::collections::{BTreeMap, BTreeSet};

use kv::{Page, PageSize, Token};
use sampling::TokenLogProbs;
use scheduler::{
    Row, RowInput, RowOpen, RowOutcome, RowPlan, Sample, SampledToken, SchedulerConfig, StepId,
    StepOutcome, StepPlan,
};

/// Tokens of the fake model; 0 is its end token.
pub(crate) const VOCABULARY: u64 = 11;

/// What stands for keys and values: which token at which position after which prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Written {
    token: Token,
    position: u32,
    prefix: u64,
}

struct DeviceRow {
    open: RowOpen,
    pages: Vec<Page>,
    /// Every token of the sequence, the ones sampled here included.
    tokens: Vec<Token>,
}

/// Runs plans in order and checks that each row sees exactly its own history.
pub(crate) struct Device {
    page_size: PageSize,
    pages: u32,
    max_rows: u32,
    max_step_tokens: u32,
    max_step_scores: u32,
    slots: BTreeMap<u32, Written>,
    rows: BTreeMap<Row, DeviceRow>,
    next_step: StepId,
}

/// The fake model: a hash of all tokens so far.
pub(crate) fn fold(prefix: u64, token: Token) -> u64 {
    let mixed = (prefix ^ u64::from(token)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed ^ (mixed >> 29)
}

/// The token that follows a prefix.
pub(crate) fn next_token(prefix: u64, seed: u64, choice: u32) -> Token {
    (fold(prefix ^ seed, choice) % VOCABULARY) as Token
}

impl Device {
    pub(crate) fn new(config: &SchedulerConfig) -> Self {
        Self {
            page_size: config.page_size,
            pages: config.pages,
            max_rows: config.max_rows,
            max_step_tokens: config.max_step_tokens(),
            max_step_scores: config.max_step_scores,
            slots: BTreeMap::new(),
            rows: BTreeMap::new(),
            next_step: StepId(0),
        }
    }

    pub(crate) fn run(&mut self, plan: &StepPlan) -> StepOutcome {
        assert_eq!(plan.id, self.next_step, "steps are numbered without gaps");
        self.next_step = StepId(plan.id.0 + 1);
        assert!(!plan.rows.is_empty() && plan.tokens() <= self.max_step_tokens);
        for row in &plan.closes {
            self.rows.remove(row).expect("only open rows are closed");
        }
        for open in &plan.opens {
            self.open(open);
        }
        let targets: BTreeSet<_> = plan.copies.iter().map(|copy| copy.to).collect();
        for copy in &plan.copies {
            assert!(
                !targets.contains(&copy.from),
                "copies of one step do not depend on each other"
            );
            assert!(copy.tokens > 0 && copy.tokens < self.page_size.tokens());
            for offset in 0..copy.tokens {
                let from = copy.from.0 * self.page_size.tokens() + offset;
                let to = copy.to.0 * self.page_size.tokens() + offset;
                let written = self.slots[&from];
                self.slots.insert(to, written);
            }
        }
        let numbers = plan.rows.iter().map(|row| self.numbers(row));
        assert!(numbers.sum::<u32>() <= self.max_step_scores);
        let mut touched = BTreeSet::new();
        let mut seen = BTreeSet::new();
        for row in &plan.rows {
            assert!(seen.insert(row.row), "a row takes part once");
            self.write(row, &mut touched);
        }
        let rows = plan.rows.iter().map(|row| self.read(row)).collect();
        StepOutcome { id: plan.id, rows }
    }

    /// Rows the device still keeps state for.
    pub(crate) fn open_rows(&self) -> usize {
        self.rows.len()
    }

    fn open(&mut self, open: &RowOpen) {
        assert!(open.row != Row::DUMMY && open.row.0 <= self.max_rows);
        let tokens = open.history.to_vec();
        let row = DeviceRow {
            open: open.clone(),
            pages: Vec::new(),
            tokens,
        };
        assert!(
            self.rows.insert(open.row, row).is_none(),
            "only closed rows are opened"
        );
    }

    /// Numbers that the scores of a row's prompt tokens are.
    fn numbers(&self, plan: &RowPlan) -> u32 {
        let wanted = self.rows[&plan.row].open.log_probs.as_ref();
        plan.scored.len() as u32 * wanted.map_or(0, |wanted| wanted.numbers())
    }

    /// Stores the row's input tokens in its pages.
    fn write(&mut self, plan: &RowPlan, touched: &mut BTreeSet<u32>) {
        let row = self
            .rows
            .get_mut(&plan.row)
            .expect("only open rows are planned");
        if !plan.pages.pages.is_empty() {
            assert!(
                plan.pages.at as usize <= row.pages.len(),
                "page tables have no gaps"
            );
            row.pages.truncate(plan.pages.at as usize);
            row.pages.extend(&plan.pages.pages);
            assert!(
                row.pages
                    .iter()
                    .all(|page| *page != Page::DUMMY && page.0 <= self.pages)
            );
        }
        assert!(plan.tokens() > 0, "a row that takes part has input");
        match &plan.input {
            RowInput::Prompt(tokens, range) => {
                assert_eq!(tokens, &row.open.history);
                assert_eq!(range.start, plan.start);
            }
            RowInput::LastSampled => assert_eq!(row.tokens.len() as u32, plan.start + 1),
        }
        for position in plan.start..plan.end() {
            let token = row.tokens[position as usize];
            let prefix = match position.checked_sub(1) {
                Some(before) => self.slots[&self.page_size.slot(&row.pages, before)].prefix,
                None => 0,
            };
            let slot = self.page_size.slot(&row.pages, position);
            assert!(
                touched.insert(slot),
                "two rows wrote slot {slot} in one step"
            );
            self.slots.insert(
                slot,
                Written {
                    token,
                    position,
                    prefix: fold(prefix, token),
                },
            );
        }
    }

    /// Attends over the row's history, which must be all its own, and samples.
    fn read(&mut self, plan: &RowPlan) -> RowOutcome {
        let row = self
            .rows
            .get_mut(&plan.row)
            .expect("only open rows are planned");
        let mut prefixes = Vec::new();
        for position in 0..plan.end() {
            let token = row.tokens[position as usize];
            let prefix = fold(prefixes.last().copied().unwrap_or(0), token);
            let found = self.slots[&self.page_size.slot(&row.pages, position)];
            assert_eq!(
                found,
                Written {
                    token,
                    position,
                    prefix
                },
                "{:?} sees its history",
                plan.row
            );
            prefixes.push(prefix);
        }
        let last = prefixes[plan.end() as usize - 1];
        let mut sampled = Vec::new();
        if plan.sample != Sample::No {
            let token = next_token(last, row.open.seed, row.open.choice);
            let wanted = row.open.log_probs.as_ref();
            let log_probs = wanted.map(|_| score(token, last));
            row.tokens.push(token);
            let outputs = row.tokens.len() as u32 - row.open.prompt_len;
            let limit = row.open.stop.max_new_tokens().unwrap_or(u32::MAX);
            assert!(outputs <= limit, "the length limit is known in advance");
            sampled.push(SampledToken { token, log_probs });
        }
        let prompt_log_probs = plan
            .scored
            .clone()
            .map(|position| {
                assert!((plan.start + 1..=plan.end()).contains(&position));
                assert!(position < row.open.prompt_len);
                score(
                    row.tokens[position as usize],
                    prefixes[position as usize - 1],
                )
            })
            .collect();
        RowOutcome {
            row: plan.row,
            sampled,
            prompt_log_probs,
        }
    }
}

/// A log-probability that tells which prefix it was computed from.
pub(crate) fn score(token: Token, prefix: u64) -> TokenLogProbs {
    let log_prob = -((prefix % 1000) as f32);
    TokenLogProbs {
        token,
        log_prob,
        top: Vec::new(),
        chosen: Vec::new(),
    }
}
