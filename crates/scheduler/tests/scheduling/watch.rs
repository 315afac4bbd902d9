//! Watches what is submitted, before it runs.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use kv::{Page, PageSize};
use scheduler::{Row, StepPlan};

/// Keeps the page tables of steps in flight and checks that nobody is given a page to write that
/// another row's step in flight may read: even on a device that ran steps out of order, rows
/// could not disturb each other.
pub(crate) struct Watch {
    page_size: PageSize,
    tables: BTreeMap<Row, Vec<Page>>,
    /// For each step, the rows it names and all their pages.
    in_flight: VecDeque<Vec<(Row, BTreeSet<Page>)>>,
}

impl Watch {
    pub(crate) fn new(page_size: PageSize) -> Self {
        Self {
            page_size,
            tables: BTreeMap::new(),
            in_flight: VecDeque::new(),
        }
    }

    pub(crate) fn submitted(&mut self, plan: &StepPlan) {
        for row in &plan.closes {
            let named = self
                .in_flight
                .iter()
                .flatten()
                .any(|(named, _)| named == row);
            assert!(!named, "{row:?} was released while a step names it");
            self.tables.remove(row);
        }
        for open in &plan.opens {
            self.tables.insert(open.row, Vec::new());
        }
        let mut named = Vec::new();
        for row in &plan.rows {
            let table = self
                .tables
                .get_mut(&row.row)
                .expect("only open rows are planned");
            if !row.pages.pages.is_empty() {
                table.truncate(row.pages.at as usize);
                table.extend(&row.pages.pages);
            }
            let first = (row.start / self.page_size.tokens()) as usize;
            let last = ((row.end() - 1) / self.page_size.tokens()) as usize;
            for page in &table[first..=last] {
                let others = self
                    .in_flight
                    .iter()
                    .flatten()
                    .filter(|(other, _)| *other != row.row);
                for (other, pages) in others {
                    assert!(
                        !pages.contains(page),
                        "{page:?} of {other:?} went to {:?}",
                        row.row
                    );
                }
            }
            named.push((row.row, table.iter().copied().collect()));
        }
        self.in_flight.push_back(named);
    }

    pub(crate) fn committed(&mut self) {
        self.in_flight.pop_front();
    }
}
