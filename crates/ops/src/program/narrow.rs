use std::collections::{BTreeMap, BTreeSet};

use super::{Axis, Node, Op, Operand, Program, Val, ValueDecl};
use crate::op::GatherRows;

impl Program {
    /// Moves the gather of sampled rows up through row-wise ops: what only sampled rows need is computed of them alone.
    pub(super) fn narrow(&mut self) {
        let (gather, _, gathered) = self.sampled_gather();
        let Op::GatherRows(taken) = self.nodes[gather].op else {
            unreachable!("the place of a gather")
        };
        let narrow = self.narrowed_ops(gather);
        if narrow.is_empty() {
            return;
        }
        let all = taken.x.value;
        let produced: BTreeSet<Val> = narrow
            .iter()
            .flat_map(|&place| self.nodes[place].op.results())
            .collect();
        let mut replaced: BTreeMap<Val, Val> = BTreeMap::from([(gathered, all)]);
        let mut nodes = Vec::with_capacity(self.nodes.len() + 2);
        for (place, node) in std::mem::take(&mut self.nodes).into_iter().enumerate() {
            if place == gather {
                continue;
            }
            if narrow.contains(&place) {
                for input in node.op.inputs() {
                    if !produced.contains(&input) && !replaced.contains_key(&input) {
                        let some = self.sampled_copy(input);
                        replaced.insert(input, some);
                        nodes.push(Node {
                            op: Op::GatherRows(GatherRows {
                                x: Operand::from(input),
                                indices: taken.indices,
                                out: some,
                            }),
                            layer: node.layer,
                        });
                    }
                }
            }
            let renames = narrow.contains(&place) || place > gather;
            let rename = |value: Val| match replaced.get(&value) {
                Some(&other) if renames => other,
                _ => value,
            };
            nodes.push(Node {
                op: node.op.rename(&mut { rename }),
                ..node
            });
        }
        self.nodes = nodes;
        for value in produced {
            self.values[value.index()].shape.axis = Axis::Sampled;
        }
    }

    /// Row-wise ops before the gather whose results nothing but the gather and other such ops reads.
    fn narrowed_ops(&self, gather: usize) -> BTreeSet<usize> {
        let is_output = |value| self.outputs.iter().any(|&(_, output)| output == value);
        let users = self.users();
        let mut narrow = BTreeSet::new();
        for place in (0..gather).rev() {
            let op = &self.nodes[place].op;
            let results = op.results();
            let is_read = results.iter().any(|value| !users[value.index()].is_empty());
            let by_sampled = |value: &Val| {
                let mut users = users[value.index()].iter();
                !is_output(*value) && users.all(|user| *user == gather || narrow.contains(user))
            };
            if op.is_row_wise() && is_read && results.iter().all(by_sampled) {
                narrow.insert(place);
            }
        }
        narrow
    }

    fn sampled_copy(&mut self, of: Val) -> Val {
        let mut decl: ValueDecl = *self.value(of);
        decl.shape.axis = Axis::Sampled;
        decl.input = None;
        self.values.push(decl);
        Val(self.values.len() as u32 - 1)
    }
}
