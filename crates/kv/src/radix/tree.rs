//! Finding, pinning and adding prefixes.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Bound,
};

use slotmap::SlotMap;

use super::node::{Children, Node, NodeId, Parent, common_prefix};
use crate::{Namespace, Page, PageSize, Token};

/// All cached prefixes.
///
/// Nodes count the leases at and below them, so a node without leases has none below either and
/// its pages can be evicted sooner or later.
#[derive(Debug)]
pub(crate) struct Tree {
    pub(crate) page_size: usize,
    pub(crate) nodes: SlotMap<NodeId, Node>,
    pub(crate) tops: BTreeMap<Namespace, Children>,
    /// Leaves without leases, least recently used first.
    pub(crate) evictable: BTreeSet<(u64, NodeId)>,
    /// Pages of all nodes without leases.
    pub(crate) unleased_pages: u32,
    clock: u64,
}

/// Where a walk down the tree ended.
pub(crate) struct Walk {
    /// The last node on the path; `None` is the namespace itself.
    pub(crate) node: Option<NodeId>,
    /// The pages passed, in order.
    pub(crate) pages: Vec<Page>,
}

impl Tree {
    pub(crate) fn new(page_size: PageSize) -> Self {
        Self {
            page_size: page_size.tokens() as usize,
            nodes: SlotMap::with_key(),
            tops: BTreeMap::new(),
            evictable: BTreeSet::new(),
            unleased_pages: 0,
            clock: 0,
        }
    }

    /// Follows `tokens` down from `start`, splitting the node they end in, and marks the
    /// whole path as used now.
    pub(crate) fn walk(
        &mut self,
        namespace: &Namespace,
        start: Option<NodeId>,
        tokens: &[Token],
    ) -> Walk {
        self.clock += 1;
        let mut above = start;
        while let Some(node) = above {
            self.touch(node);
            above = parent_node(&self.nodes[node].parent);
        }
        let mut walk = Walk {
            node: start,
            pages: Vec::new(),
        };
        let mut rest = tokens;
        while let Some(child) = self.child(namespace, walk.node, rest) {
            let node = &self.nodes[child];
            let common = common_prefix(&node.tokens, rest) / self.page_size;
            let child = if common < node.pages.len() {
                self.split(child, common)
            } else {
                child
            };
            self.touch(child);
            walk.pages.extend_from_slice(&self.nodes[child].pages);
            walk.node = Some(child);
            rest = &rest[common * self.page_size..];
        }
        walk
    }

    /// How many of `tokens` are cached, without pinning or touching anything.
    pub(crate) fn peek(&self, namespace: &Namespace, tokens: &[Token]) -> usize {
        let mut place = None;
        let mut rest = tokens;
        while let Some(child) = self.child(namespace, place, rest) {
            let node = &self.nodes[child];
            let common = common_prefix(&node.tokens, rest) / self.page_size * self.page_size;
            rest = &rest[common..];
            if common < node.tokens.len() {
                break;
            }
            place = Some(child);
        }
        tokens.len() - rest.len()
    }

    /// The child of `place` whose first page begins most like `rest`: its node, its first page
    /// and how many tokens of that page agree, at least one.
    pub(crate) fn nearest_page(
        &self,
        namespace: &Namespace,
        place: Option<NodeId>,
        rest: &[Token],
    ) -> Option<(NodeId, Page, usize)> {
        let children = self.children(namespace, place)?;
        let below = children.range::<[Token], _>((Bound::Unbounded, Bound::Excluded(rest)));
        let above = children.range::<[Token], _>((Bound::Included(rest), Bound::Unbounded));
        let neighbours = below.rev().take(1).chain(above.take(1));
        let (agree, node) = neighbours
            .map(|(first_page, &node)| (common_prefix(first_page, rest), node))
            .max_by_key(|&(agree, _)| agree)?;
        (agree > 0).then(|| (node, self.nodes[node].pages[0], agree))
    }

    /// Adds a leaf below `place`. No child of it begins with the same page.
    pub(crate) fn add_leaf(
        &mut self,
        namespace: &Namespace,
        place: Option<NodeId>,
        tokens: &[Token],
        pages: &[Page],
    ) -> NodeId {
        let parent = match place {
            Some(node) => Parent::Node(node),
            None => Parent::Namespace(namespace.clone()),
        };
        if let Some(node) = place {
            self.unlist(node);
        }
        let leaf = self
            .nodes
            .insert(Node::new(parent.clone(), tokens, pages, self.clock));
        let first_page = tokens[..self.page_size].into();
        let replaced = self.children_mut(&parent).insert(first_page, leaf);
        assert!(replaced.is_none(), "a page was inserted beside itself");
        self.unleased_pages += pages.len() as u32;
        self.list(leaf);
        leaf
    }

    /// Pins the path that ends at `node`.
    pub(crate) fn pin(&mut self, node: NodeId) {
        let mut next = Some(node);
        while let Some(id) = next {
            self.unlist(id);
            let node = &mut self.nodes[id];
            node.leases += 1;
            if node.leases == 1 {
                self.unleased_pages -= node.pages.len() as u32;
            }
            next = parent_node(&node.parent);
        }
    }

    /// Undoes one `pin` of the path that ends at `node`.
    pub(crate) fn unpin(&mut self, node: NodeId) {
        let mut next = Some(node);
        while let Some(id) = next {
            let node = &mut self.nodes[id];
            node.leases -= 1;
            if node.leases == 0 {
                self.unleased_pages += node.pages.len() as u32;
            }
            next = parent_node(&node.parent);
            self.list(id);
        }
    }

    /// Pages of the path that ends at `node`, as far as only one lease pins them.
    pub(crate) fn pages_pinned_once_above(&self, node: NodeId) -> u32 {
        let mut pages = 0;
        let mut next = Some(node);
        while let Some(node) = next.map(|id| &self.nodes[id])
            && node.leases == 1
        {
            pages += node.pages.len() as u32;
            next = parent_node(&node.parent);
        }
        pages
    }

    /// The children of a place; `None` when the namespace has none.
    fn children(&self, namespace: &Namespace, place: Option<NodeId>) -> Option<&Children> {
        match place {
            Some(node) => Some(&self.nodes[node].children),
            None => self.tops.get(namespace),
        }
    }

    fn child(
        &self,
        namespace: &Namespace,
        place: Option<NodeId>,
        rest: &[Token],
    ) -> Option<NodeId> {
        let first_page = rest.get(..self.page_size)?;
        self.children(namespace, place)?.get(first_page).copied()
    }

    pub(crate) fn children_mut(&mut self, parent: &Parent) -> &mut Children {
        match parent {
            Parent::Node(node) => &mut self.nodes[*node].children,
            Parent::Namespace(namespace) => self.tops.entry(namespace.clone()).or_default(),
        }
    }

    /// Cuts a node after `pages` pages; returns the new upper part.
    fn split(&mut self, node: NodeId, pages: usize) -> NodeId {
        let page_size = self.page_size;
        let lower = &mut self.nodes[node];
        let head = lower.split_head(pages, page_size);
        let upper_key: Box<[Token]> = head.tokens[..page_size].into();
        let lower_key: Box<[Token]> = lower.tokens[..page_size].into();
        let parent = head.parent.clone();
        let upper = self.nodes.insert(head);
        self.nodes[node].parent = Parent::Node(upper);
        self.nodes[upper].children.insert(lower_key, node);
        self.children_mut(&parent).insert(upper_key, upper);
        upper
    }

    fn touch(&mut self, id: NodeId) {
        self.unlist(id);
        self.nodes[id].last_used = self.clock;
        self.list(id);
    }

    /// Enters a node into the eviction order if it belongs there.
    pub(crate) fn list(&mut self, id: NodeId) {
        let node = &self.nodes[id];
        if node.is_evictable() {
            self.evictable.insert((node.last_used, id));
        }
    }

    /// Takes a node out of the eviction order before it changes.
    pub(crate) fn unlist(&mut self, id: NodeId) {
        let node = &self.nodes[id];
        if node.is_evictable() {
            self.evictable.remove(&(node.last_used, id));
        }
    }
}

pub(crate) fn parent_node(parent: &Parent) -> Option<NodeId> {
    match parent {
        Parent::Node(node) => Some(*node),
        Parent::Namespace(_) => None,
    }
}
