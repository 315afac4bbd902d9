//! Cached prefixes as a radix tree over tokens, at page granularity.

mod evict;
mod node;
mod tree;

pub(crate) use node::{Node, NodeId, Parent};
pub(crate) use tree::Tree;
