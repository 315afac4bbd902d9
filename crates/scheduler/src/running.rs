//! A sequence that has a row and pages.

use std::sync::Arc;

use kv::{PageTable, PrefixLease};

use crate::{NewPages, Row, RowOpen, sequence::Sequence};

/// What becomes of a running sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// It is planned whenever there is room.
    Live,
    /// It is planned no more and goes back to the queue when no step names it.
    Retracting,
    /// It is planned no more and goes away when no step names it.
    Ended,
}

/// A sequence with its row, its pages and how far it has got.
#[derive(Debug)]
pub(crate) struct Running {
    pub(crate) sequence: Sequence,
    pub(crate) row: Row,
    pub(crate) lease: PrefixLease,
    pub(crate) table: PageTable,
    pub(crate) phase: Phase,
    /// Positions that are cached, computed or part of a planned step.
    pub(crate) planned: u32,
    /// Positions that are cached or computed.
    pub(crate) committed: u32,
    /// Submitted steps that name the row.
    pub(crate) in_flight: u32,
    /// Those of them that sample.
    pub(crate) sampling: u32,
    /// The first page of the table that the ranks do not know.
    pub(crate) told: u32,
}

impl Running {
    /// Whether some of the history is not planned yet.
    pub(crate) fn has_prompt_left(&self) -> bool {
        self.phase == Phase::Live && self.planned < self.sequence.history.len() as u32
    }

    /// Whether some of the history is not computed yet, and so not in the tree.
    pub(crate) fn is_prefilling(&self) -> bool {
        self.phase == Phase::Live && self.committed < self.sequence.history.len() as u32
    }

    /// Whether the next step may continue with the token sampled last. The length limit is known
    /// in advance, so a row that will reach it is not planned again.
    pub(crate) fn can_decode(&self) -> bool {
        let outputs = self.sequence.outputs.len() as u32 + self.sampling;
        self.phase == Phase::Live
            && self.planned >= self.sequence.history.len() as u32
            && outputs < self.sequence.max_new_tokens
    }

    /// Pages still missing for `tokens` more generated tokens, or for as many as it may have.
    pub(crate) fn pages_for_more(&self, tokens: u32) -> u32 {
        let position = self.planned.max(self.sequence.history.len() as u32);
        let positions = position
            .saturating_add(tokens)
            .min(self.sequence.most_positions());
        self.table.missing_for(positions)
    }

    /// The pages that the ranks do not know yet; they do after this.
    pub(crate) fn new_pages(&mut self) -> NewPages {
        let pages = NewPages {
            at: self.told,
            pages: self.table.pages()[self.told as usize..].to_vec(),
        };
        self.told = self.table.len();
        pages
    }

    pub(crate) fn open(&self) -> RowOpen {
        let new = &self.sequence.new;
        RowOpen {
            row: self.row,
            sequence: self.sequence.id,
            history: Arc::clone(&self.sequence.history),
            prompt_len: self.sequence.prompt_len(),
            params: Arc::clone(&new.params),
            stop: Arc::clone(&new.stop),
            seed: new.seed,
            choice: new.choice,
            log_probs: new.log_probs.clone(),
        }
    }
}
