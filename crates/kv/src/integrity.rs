//! Every page counted once.

use thiserror::Error;

use crate::{
    Page, PrefixCache,
    pool::Owner,
    radix::{Node, NodeId, Parent},
};

/// What does not add up. Always a bug, never a state to go on from.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum IntegrityError {
    /// A page is named by two owners or by none.
    #[error("page {page} was found {found} times, expected once")]
    Page {
        /// The page's number.
        page: usize,
        /// How often it was found.
        found: u32,
    },
    /// A page was found with one owner while the pool says another.
    #[error("page {page} was found {found}, the pool says {recorded}")]
    Owner {
        /// The page's number.
        page: u32,
        /// Where it was found.
        found: &'static str,
        /// What the pool says.
        recorded: String,
    },
    /// A node of the tree contradicts itself or its neighbours.
    #[error("a node of {pages} pages: {what}")]
    Node {
        /// Pages of the node.
        pages: usize,
        /// What is wrong.
        what: &'static str,
    },
    /// A running total differs from the sum.
    #[error("{what}: counted {counted}, recorded {recorded}")]
    Count {
        /// What is counted.
        what: &'static str,
        /// The sum.
        counted: usize,
        /// The running total.
        recorded: usize,
    },
}

impl PrefixCache {
    /// Checks that every page is free, cached or one of `leased`, exactly once, and that the
    /// tree's links, leases and eviction order agree.
    ///
    /// `leased` are the pages that sequences own alone.
    pub fn check_integrity(
        &self,
        leased: impl IntoIterator<Item = Page>,
    ) -> Result<(), IntegrityError> {
        let mut found = vec![0_u32; self.pool.total() as usize + 1];
        let free = self.pool.free_pages().iter().copied();
        self.count_pages(free, Owner::Free, "free", &mut found)?;
        self.count_pages(leased, Owner::Leased, "leased", &mut found)?;
        let mut evictable = 0;
        let mut unleased_pages = 0;
        for (id, node) in &self.tree.nodes {
            self.check_node(id, node)?;
            self.count_pages(
                node.pages.iter().copied(),
                Owner::Cached,
                "cached",
                &mut found,
            )?;
            evictable += usize::from(node.is_evictable());
            unleased_pages += if node.leases == 0 {
                node.pages.len()
            } else {
                0
            };
        }
        for (page, &found) in found.iter().enumerate().skip(1) {
            if found != 1 {
                return Err(IntegrityError::Page { page, found });
            }
        }
        compare("evictable leaves", evictable, self.tree.evictable.len())?;
        compare(
            "evictable pages",
            unleased_pages,
            self.tree.unleased_pages as usize,
        )
    }

    fn count_pages(
        &self,
        pages: impl IntoIterator<Item = Page>,
        owner: Owner,
        name: &'static str,
        found: &mut [u32],
    ) -> Result<(), IntegrityError> {
        for page in pages {
            let recorded = self.pool.owner(page);
            if recorded != Some(owner) {
                let recorded = format!("{recorded:?}");
                return Err(IntegrityError::Owner {
                    page: page.0,
                    found: name,
                    recorded,
                });
            }
            found[page.index()] += 1;
        }
        Ok(())
    }

    fn check_node(&self, id: NodeId, node: &Node) -> Result<(), IntegrityError> {
        let page_size = self.tree.page_size;
        let wrong = |what| {
            Err(IntegrityError::Node {
                pages: node.pages.len(),
                what,
            })
        };
        if node.pages.is_empty() || node.tokens.len() != node.pages.len() * page_size {
            return wrong("its tokens do not fill its pages");
        }
        let siblings = match &node.parent {
            Parent::Node(parent) => self.tree.nodes.get(*parent).map(|parent| &parent.children),
            Parent::Namespace(namespace) => self.tree.tops.get(namespace),
        };
        let place = siblings.and_then(|siblings| siblings.get(&node.tokens[..page_size]));
        if place != Some(&id) {
            return wrong("its parent does not know it");
        }
        let below: u32 = node
            .children
            .values()
            .map(|&child| self.tree.nodes[child].leases)
            .sum();
        if below > node.leases {
            return wrong("its children have more leases than it has");
        }
        if node.is_evictable() && !self.tree.evictable.contains(&(node.last_used, id)) {
            return wrong("it can be evicted but is not in the order of eviction");
        }
        Ok(())
    }
}

fn compare(what: &'static str, counted: usize, recorded: usize) -> Result<(), IntegrityError> {
    if counted == recorded {
        Ok(())
    } else {
        Err(IntegrityError::Count {
            what,
            counted,
            recorded,
        })
    }
}
