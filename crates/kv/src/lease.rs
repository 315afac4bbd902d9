//! A pinned path of the tree.

use crate::{Namespace, radix::NodeId};

/// A cached prefix that cannot be evicted until the lease is released.
///
/// It must go back to the cache it came from: dropping it is a leak and panics in debug builds.
#[must_use = "a lease pins pages until it is released"]
#[derive(Debug)]
pub struct PrefixLease {
    pub(crate) namespace: Namespace,
    /// The last node of the path; `None` pins nothing.
    pub(crate) node: Option<NodeId>,
}

impl PrefixLease {
    /// A lease that pins nothing yet.
    pub(crate) fn empty(namespace: Namespace) -> Self {
        Self {
            namespace,
            node: None,
        }
    }
}

impl Drop for PrefixLease {
    fn drop(&mut self) {
        debug_assert!(
            self.node.is_none() || std::thread::panicking(),
            "a prefix lease was dropped without being released"
        );
    }
}
