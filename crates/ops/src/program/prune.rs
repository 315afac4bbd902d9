use std::collections::HashSet;

use super::{Program, Val};

impl Program {
    /// Removes ops that neither an output nor an effect needs.
    pub(super) fn prune(&mut self) {
        let mut needed: HashSet<Val> = self.outputs.iter().map(|&(_, value)| value).collect();
        let mut kept = vec![false; self.nodes.len()];
        for (node, kept) in self.nodes.iter().zip(&mut kept).rev() {
            let is_read = || node.op.results().iter().any(|value| needed.contains(value));
            *kept = node.op.has_effect() || is_read();
            if *kept {
                needed.extend(node.op.inputs());
            }
        }
        let mut kept = kept.into_iter();
        self.nodes.retain(|_| kept.next().unwrap_or(false));
    }
}
