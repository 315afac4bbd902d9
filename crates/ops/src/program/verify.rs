//! What the borrow checker would prove of views: values are written once, before they are read, and an op reads nothing
//! that it writes.

use std::collections::{BTreeSet, HashSet};
use std::fmt;

use crate::Access;

use super::{Op, Program, Val};

/// What is wrong with a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Flaw {
    /// The op's place.
    pub place: usize,
    /// What it is called.
    pub op: &'static str,
    /// What is wrong with it.
    pub what: String,
}

impl fmt::Display for Flaw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "op {} ({}): {}", self.place, self.op, self.what)
    }
}

impl std::error::Error for Flaw {}

impl Program {
    /// Finds the first op that cannot run.
    pub fn verify(&self) -> Result<(), Flaw> {
        let mut checked = Checked {
            program: self,
            written: HashSet::new(),
            gone: HashSet::new(),
        };
        for (place, node) in self.nodes.iter().enumerate() {
            checked.op(&node.op).map_err(|what| Flaw {
                place,
                op: node.op.name(),
                what,
            })?;
        }
        let missing = self
            .outputs
            .iter()
            .find(|(_, value)| !checked.written.contains(value) || checked.gone.contains(value));
        match missing {
            None => Ok(()),
            Some((output, value)) => Err(Flaw {
                place: self.nodes.len(),
                op: "end",
                what: format!("{output:?} is value {}, which is not there", value.0),
            }),
        }
    }
}

struct Checked<'p> {
    program: &'p Program,
    written: HashSet<Val>,
    /// Changed in place: only the value after is there.
    gone: HashSet<Val>,
}

impl Checked<'_> {
    fn op(&mut self, op: &Op) -> Result<(), String> {
        self.names(op)?;
        for value in op.inputs() {
            if !self.is_there(value) {
                return Err(format!(
                    "value {} is read and was not written, or has changed since",
                    value.0
                ));
            }
        }
        let mut updated = BTreeSet::new();
        op.visit(&mut |access| {
            if let Access::Update(update) = access {
                updated.insert((update.from, update.to));
            }
        });
        for (from, to) in updated {
            if self.program.value(from).input.is_some() {
                return Err(format!("value {} is an input and would change", from.0));
            }
            let alike = self.program.value(from) == self.program.value(to);
            if !alike {
                return Err(format!(
                    "value {} changes its shape to that of {}",
                    from.0, to.0
                ));
            }
            self.gone.insert(from);
        }
        for value in op.results() {
            if self.program.value(value).input.is_some() || !self.written.insert(value) {
                return Err(format!("value {} is written twice", value.0));
            }
        }
        Ok(())
    }

    fn is_there(&self, value: Val) -> bool {
        let is_input = self.program.value(value).input.is_some();
        is_input || self.written.contains(&value) && !self.gone.contains(&value)
    }

    fn names(&self, op: &Op) -> Result<(), String> {
        let program = self.program;
        let mut wrong = None;
        op.visit(&mut |access| {
            let (what, index, count) = match access {
                Access::Read(value) | Access::Write(value) => {
                    ("value", value.index(), program.values.len())
                }
                Access::Update(update) => {
                    let last = update.from.index().max(update.to.index());
                    ("value", last, program.values.len())
                }
                Access::Weight(weight) => ("weight", weight.index(), program.weights.len()),
                Access::Vector(vector) => ("vector", vector.index(), program.vectors.len()),
                Access::Cache(cache) => ("cache", cache.index(), program.caches.len()),
            };
            if index >= count {
                wrong = Some(format!("{what} {index} is not declared"));
            }
        });
        wrong.map_or(Ok(()), Err)
    }
}
