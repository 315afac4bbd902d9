//! The rows and who has them.

use std::collections::BTreeSet;

use rustc_hash::FxHashMap;

use crate::{Row, SequenceId, running::Running};

/// All rows. The smallest free one is handed out first, so that the device tables stay dense.
#[derive(Debug)]
pub(crate) struct Rows {
    /// By row; the dummy row's place stays empty.
    places: Vec<Option<Box<Running>>>,
    free: BTreeSet<Row>,
    by_sequence: FxHashMap<SequenceId, Row>,
    limit: u32,
}

impl Rows {
    pub(crate) fn new(limit: u32) -> Self {
        Self {
            places: vec![None],
            free: BTreeSet::new(),
            by_sequence: FxHashMap::default(),
            limit,
        }
    }

    /// How many sequences have a row.
    pub(crate) fn len(&self) -> u32 {
        self.by_sequence.len() as u32
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.by_sequence.is_empty()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Running> {
        self.places.iter().flatten().map(Box::as_ref)
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Running> {
        self.places.iter_mut().flatten().map(Box::as_mut)
    }

    pub(crate) fn row_of(&self, sequence: SequenceId) -> Option<Row> {
        self.by_sequence.get(&sequence).copied()
    }

    /// The running sequence of a row that is known to have one.
    pub(crate) fn running(&mut self, row: Row) -> &mut Running {
        self.places[row.index()]
            .as_deref_mut()
            .expect("a row that is named has a sequence")
    }

    /// The row the next sequence would get.
    pub(crate) fn next_free(&self) -> Option<Row> {
        let unused = self.places.len() as u32;
        self.free
            .first()
            .copied()
            .or((unused <= self.limit).then_some(Row(unused)))
    }

    /// Puts a sequence into its row, which is free.
    pub(crate) fn insert(&mut self, running: Running) {
        let row = running.row;
        if row.index() == self.places.len() {
            self.places.push(None);
        }
        self.free.remove(&row);
        self.by_sequence.insert(running.sequence.id, row);
        let before = self.places[row.index()].replace(Box::new(running));
        assert!(before.is_none(), "{row:?} was handed out twice");
    }

    /// Takes the sequence out of its row; the row is free.
    pub(crate) fn remove(&mut self, row: Row) -> Running {
        let running = self.places[row.index()]
            .take()
            .expect("a row that is released has a sequence");
        self.free.insert(row);
        self.by_sequence.remove(&running.sequence.id);
        *running
    }
}
