//! A metric over time, by subject and load.

use crate::statistics::{Shift, shift};
use crate::store::{Sample, Selection, Store, StoreError};

/// The values of one metric of one load on one subject, oldest first; there is at least one.
#[derive(Debug, Clone, PartialEq)]
pub struct History {
    /// The subject.
    pub subject: String,
    /// The load.
    pub load: String,
    /// The values with their runs.
    pub samples: Vec<Sample>,
}

impl History {
    /// The values alone.
    pub fn values(&self) -> Vec<f64> {
        self.samples.iter().map(|sample| sample.value).collect()
    }

    /// The most likely change of level.
    pub fn shift(&self) -> Option<Shift> {
        shift(&self.values())
    }
}

/// Every history of a metric in the store, in the order in which they begin.
pub fn histories(
    store: &Store,
    metric: &str,
    selection: Option<&Selection>,
) -> Result<Vec<History>, StoreError> {
    let chosen = match selection {
        Some(selection) => {
            let runs = store.select(selection)?;
            Some(runs.into_iter().map(|run| run.id).collect::<Vec<_>>())
        }
        None => None,
    };
    let mut histories: Vec<History> = Vec::new();
    for sample in store.history(metric)? {
        if chosen
            .as_ref()
            .is_some_and(|chosen| !chosen.contains(&sample.run))
        {
            continue;
        }
        let same = |history: &&mut History| {
            history.subject == sample.subject && history.load == sample.load
        };
        match histories.iter_mut().find(same) {
            Some(history) => history.samples.push(sample),
            None => histories.push(History {
                subject: sample.subject.clone(),
                load: sample.load.clone(),
                samples: vec![sample],
            }),
        }
    }
    Ok(histories)
}
