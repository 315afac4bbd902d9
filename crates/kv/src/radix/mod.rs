//! Cached prefixes as a radix tree over tokens, at page granularity.

mod evict;
mod node;
mod tree;

pub use node::common_prefix;
pub(crate) use node::{Node, NodeId, Parent};
pub(crate) use tree::Tree;
