//! Who waits, and who goes first.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
};

use kv::PrefixCache;

use crate::{Order, SequenceId, sequence::Sequence};

/// Beyond this many waiting sequences, looking for each one's prefix costs more than it gives.
const LONGEST_PREFIX_LIMIT: usize = 128;

/// After this many departures from the queue, the oldest sequence goes first under any order but
/// priority: no order may keep a sequence waiting for ever.
const PATIENCE: u64 = 256;

/// The waiting sequences.
#[derive(Debug)]
pub(crate) struct Queue {
    order: Order,
    waiting: BTreeMap<SequenceId, Waiting>,
    /// First in, first out, among those with the smallest rank.
    ranked: BTreeSet<(Reverse<i64>, SequenceId)>,
    departures: u64,
}

#[derive(Debug)]
struct Waiting {
    sequence: Sequence,
    /// The queue's departures when the sequence came.
    since: u64,
}

impl Queue {
    pub(crate) fn new(order: Order) -> Self {
        Self {
            order,
            waiting: BTreeMap::new(),
            ranked: BTreeSet::new(),
            departures: 0,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.waiting.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    pub(crate) fn push(&mut self, sequence: Sequence) {
        self.ranked.insert((self.rank(&sequence), sequence.id));
        let since = self.departures;
        self.waiting
            .insert(sequence.id, Waiting { sequence, since });
    }

    pub(crate) fn get(&self, id: SequenceId) -> Option<&Sequence> {
        self.waiting.get(&id).map(|waiting| &waiting.sequence)
    }

    /// Takes out a sequence that goes away.
    pub(crate) fn remove(&mut self, id: SequenceId) -> Option<Sequence> {
        let sequence = self.waiting.remove(&id)?.sequence;
        self.ranked.remove(&(self.rank(&sequence), id));
        Some(sequence)
    }

    /// Takes out a sequence that runs from now on.
    pub(crate) fn depart(&mut self, id: SequenceId) -> Option<Sequence> {
        self.departures += 1;
        self.remove(id)
    }

    /// The first `count` sequences in the order they should run.
    pub(crate) fn first(&self, count: usize, cache: &PrefixCache) -> Vec<SequenceId> {
        let mut first: Vec<_> = match self.order {
            Order::LongestPrefix if self.waiting.len() <= LONGEST_PREFIX_LIMIT => {
                self.by_cached_prefix(cache)
            }
            _ => self.ranked.iter().take(count).map(|&(_, id)| id).collect(),
        };
        if self.order.priorities().is_none()
            && let Some((&oldest, waiting)) = self.waiting.first_key_value()
            && self.departures - waiting.since > PATIENCE
        {
            first.retain(|&id| id != oldest);
            first.insert(0, oldest);
        }
        first.truncate(count);
        first
    }

    /// Who gives up its place to a newcomer of this priority: the least important, the youngest among equals.
    pub(crate) fn displaced_by(&self, priority: Option<i32>) -> Option<SequenceId> {
        let newcomer = self.order.priorities()?.importance(priority);
        let &(Reverse(least), id) = self.ranked.last()?;
        (least < newcomer).then_some(id)
    }

    fn by_cached_prefix(&self, cache: &PrefixCache) -> Vec<SequenceId> {
        let cached = |sequence: &Sequence| {
            let usable = &sequence.history[..sequence.cacheable() as usize];
            cache.cached_tokens(&sequence.new.namespace, usable)
        };
        let mut all: Vec<_> = self
            .waiting
            .iter()
            .map(|(&id, waiting)| (Reverse(cached(&waiting.sequence)), id))
            .collect();
        all.sort_unstable();
        all.into_iter().map(|(_, id)| id).collect()
    }

    fn rank(&self, sequence: &Sequence) -> Reverse<i64> {
        Reverse(match self.order {
            Order::Arrival | Order::LongestPrefix => 0,
            Order::LongestOutput => i64::from(sequence.max_new_tokens),
            Order::Priority(rules) => rules.importance(sequence.new.priority),
        })
    }
}
