//! One edge of the tree with what hangs below it.

use std::collections::BTreeMap;

use slotmap::new_key_type;

use crate::{Namespace, Page, Token};

new_key_type! {
    /// A node of the tree; stays the same when the part above it is split off.
    pub(crate) struct NodeId;
}

/// Nodes by the tokens of their first page. Sorted, so that neighbours share most.
pub(crate) type Children = BTreeMap<Box<[Token]>, NodeId>;

/// What a node hangs below.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Parent {
    Node(NodeId),
    Namespace(Namespace),
}

/// A run of tokens and the pages that hold them.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) parent: Parent,
    pub(crate) tokens: Vec<Token>,
    pub(crate) pages: Vec<Page>,
    pub(crate) children: Children,
    /// Leases that end at this node or below it.
    pub(crate) leases: u32,
    /// The tree's clock at the last match or insert.
    pub(crate) last_used: u64,
}

impl Node {
    pub(crate) fn new(parent: Parent, tokens: &[Token], pages: &[Page], now: u64) -> Self {
        Self {
            parent,
            tokens: tokens.to_vec(),
            pages: pages.to_vec(),
            children: Children::new(),
            leases: 0,
            last_used: now,
        }
    }

    /// Cuts the first `pages` pages off as a node of their own, to be put above this one.
    pub(crate) fn split_head(&mut self, pages: usize, page_size: usize) -> Self {
        let tail_tokens = self.tokens.split_off(pages * page_size);
        let tail_pages = self.pages.split_off(pages);
        let mut tokens = std::mem::replace(&mut self.tokens, tail_tokens);
        let mut pages = std::mem::replace(&mut self.pages, tail_pages);
        tokens.shrink_to_fit();
        pages.shrink_to_fit();
        Self {
            parent: self.parent.clone(),
            tokens,
            pages,
            children: Children::new(),
            leases: self.leases,
            last_used: self.last_used,
        }
    }

    /// Whether nothing keeps this node from being evicted now.
    pub(crate) fn is_evictable(&self) -> bool {
        self.leases == 0 && self.children.is_empty()
    }
}

/// How many tokens two runs have in common from their start.
pub fn common_prefix(a: &[Token], b: &[Token]) -> usize {
    const STRIDE: usize = 64;
    let len = a.len().min(b.len());
    let (a, b) = (&a[..len], &b[..len]);
    // whole strides compare as memory; the loop below only looks into the first that differs
    let equal = a
        .chunks_exact(STRIDE)
        .zip(b.chunks_exact(STRIDE))
        .take_while(|(x, y)| x == y)
        .count()
        * STRIDE;
    let rest = a[equal..].iter().zip(&b[equal..]);
    equal + rest.take_while(|(x, y)| x == y).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_common_prefix_ends_at_the_first_difference() {
        let a: Vec<Token> = (0..300).collect();
        for differs in [0, 1, 63, 64, 65, 128, 200, 299] {
            let mut b = a.clone();
            b[differs] = 1000;
            assert_eq!(common_prefix(&a, &b), differs);
        }
        assert_eq!(common_prefix(&a, &a), 300);
        assert_eq!(common_prefix(&a, &a[..130]), 130);
        assert_eq!(common_prefix(&a, &[]), 0);
    }
}
