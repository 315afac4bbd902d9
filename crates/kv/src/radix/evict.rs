//! Giving up the prefixes that were not used for longest.

use super::{
    node::{NodeId, Parent},
    tree::{Tree, parent_node},
};
use crate::Page;

impl Tree {
    /// Gives up to `count` pages, least recently used leaves first and each from its end.
    ///
    /// A leaf loses only as many pages as are asked for: what is left is still a good prefix.
    pub(crate) fn evict(&mut self, count: u32) -> Vec<Page> {
        let mut evicted = Vec::new();
        let mut missing = count as usize;
        while missing > 0
            && let Some(&(_, id)) = self.evictable.first()
        {
            let node = &mut self.nodes[id];
            if node.pages.len() <= missing {
                missing -= node.pages.len();
                evicted.extend(self.remove_leaf(id).into_iter().rev());
            } else {
                let kept = node.pages.len() - missing;
                missing = 0;
                evicted.extend(node.pages.drain(kept..).rev());
                node.tokens.truncate(kept * self.page_size);
            }
        }
        self.unleased_pages -= evicted.len() as u32;
        evicted
    }

    /// Removes a leaf and returns its pages. Its parent may become a leaf by that.
    fn remove_leaf(&mut self, id: NodeId) -> Vec<Page> {
        self.unlist(id);
        let node = self
            .nodes
            .remove(id)
            .expect("the eviction order names nodes of the tree");
        let first_page = &node.tokens[..self.page_size];
        let siblings = self.children_mut(&node.parent);
        siblings.remove(first_page);
        if let Parent::Namespace(namespace) = &node.parent
            && siblings.is_empty()
        {
            self.tops.remove(namespace);
        }
        if let Some(parent) = parent_node(&node.parent) {
            self.list(parent);
        }
        node.pages
    }
}
