//! Pages and cached prefixes together.

use crate::{
    Namespace, Page, PageSize, PrefixLease, Token,
    pool::Pool,
    radix::{NodeId, Tree},
};

/// All KV pages: free, leased to sequences, or cached in the radix tree.
///
/// `free + leased + cached = total` at any time; [`PrefixCache::check_integrity`] counts.
#[derive(Debug)]
pub struct PrefixCache {
    pub(crate) pool: Pool,
    pub(crate) tree: Tree,
    page_size: PageSize,
    evicted: u64,
}

/// How many pages are where.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageCounts {
    /// Pages that exist, the dummy page not counted.
    pub total: u32,
    /// Pages nobody has.
    pub free: u32,
    /// Pages that belong to one sequence alone.
    pub leased: u32,
    /// Pages of the radix tree.
    pub cached: u32,
    /// Cached pages that no lease pins.
    pub evictable: u32,
}

impl PageCounts {
    /// Pages that can be had, by eviction if need be.
    pub fn available(&self) -> u32 {
        self.free + self.evictable
    }

    /// Pages that somebody needs.
    pub fn used(&self) -> u32 {
        self.total - self.available()
    }
}

/// A cached page whose first tokens continue a prefix: worth copying.
#[derive(Debug)]
pub struct PartialPage {
    /// Keeps the page from being evicted before it is copied.
    pub lease: PrefixLease,
    /// The page.
    pub page: Page,
    /// How many of its first positions agree.
    pub tokens: u32,
}

impl PrefixCache {
    /// A cache of pages `1..=pages`, all free.
    pub fn new(pages: u32, page_size: PageSize) -> Self {
        Self {
            pool: Pool::new(pages),
            tree: Tree::new(page_size),
            page_size,
            evicted: 0,
        }
    }

    /// Positions per page.
    pub fn page_size(&self) -> PageSize {
        self.page_size
    }

    /// How many pages are where.
    pub fn counts(&self) -> PageCounts {
        let (total, free) = (self.pool.total(), self.pool.free_count());
        let cached = self.pool.cached_count();
        PageCounts {
            total,
            free,
            leased: total - free - cached,
            cached,
            evictable: self.tree.unleased_pages,
        }
    }

    /// Pages evicted since the start.
    pub fn evicted(&self) -> u64 {
        self.evicted
    }

    /// How many of `tokens` are cached, in whole pages; nothing is pinned or marked as used.
    pub fn cached_tokens(&self, namespace: &Namespace, tokens: &[Token]) -> u32 {
        self.tree.peek(namespace, tokens) as u32
    }

    /// Finds the longest cached prefix of `tokens` and pins it. Returns its pages; they hold the
    /// prefix until the lease is released.
    pub fn match_prefix(
        &mut self,
        namespace: &Namespace,
        tokens: &[Token],
    ) -> (PrefixLease, Vec<Page>) {
        let walk = self.tree.walk(namespace, None, tokens);
        (self.lease(namespace, walk.node), walk.pages)
    }

    /// Finds the cached page that begins most like `rest`, which follows the leased prefix.
    pub fn match_partial_page(
        &mut self,
        lease: &PrefixLease,
        rest: &[Token],
    ) -> Option<PartialPage> {
        let (node, page, tokens) = self.tree.nearest_page(&lease.namespace, lease.node, rest)?;
        let lease = self.lease(&lease.namespace, Some(node));
        Some(PartialPage {
            lease,
            page,
            tokens: tokens as u32,
        })
    }

    /// Offers a sequence's `pages`, which hold `tokens` after the leased prefix, to the tree and
    /// moves the lease to their end.
    ///
    /// Returns the tree's own pages for the first tokens when it had them already: that many of
    /// `pages` are duplicates and stay the caller's; the others are the tree's now.
    pub fn extend(
        &mut self,
        lease: &mut PrefixLease,
        tokens: &[Token],
        pages: &[Page],
    ) -> Vec<Page> {
        let page_size = self.page_size.tokens() as usize;
        assert_eq!(
            tokens.len(),
            pages.len() * page_size,
            "only full pages can be cached"
        );
        let walk = self.tree.walk(&lease.namespace, lease.node, tokens);
        let known = walk.pages;
        let new = &pages[known.len()..];
        let mut end = walk.node;
        if !new.is_empty() {
            self.pool.adopt(new);
            let new_tokens = &tokens[known.len() * page_size..];
            end = Some(self.tree.add_leaf(&lease.namespace, end, new_tokens, new));
        }
        let old = std::mem::replace(lease, self.lease(&lease.namespace, end));
        self.release(old);
        known
    }

    /// Puts `pages`, which hold `tokens` from the start, into the tree. Returns those of them
    /// that were cached already in other pages; they stay the caller's.
    pub fn insert(&mut self, namespace: &Namespace, tokens: &[Token], pages: &[Page]) -> Vec<Page> {
        let mut lease = PrefixLease::empty(namespace.clone());
        let known = self.extend(&mut lease, tokens, pages);
        self.release(lease);
        let both = pages.iter().zip(&known);
        both.filter(|(own, known)| own != known)
            .map(|(own, _)| *own)
            .collect()
    }

    /// Ends a lease: its pages may be evicted unless another pins them.
    pub fn release(&mut self, mut lease: PrefixLease) {
        if let Some(node) = lease.node.take() {
            self.tree.unpin(node);
        }
    }

    /// Pages that could be evicted if the lease were released.
    pub fn pages_pinned_only_by(&self, lease: &PrefixLease) -> u32 {
        lease
            .node
            .map_or(0, |node| self.tree.pages_pinned_once_above(node))
    }

    /// Takes `count` pages for a sequence, evicting if need be; `None` when there are not as
    /// many, and nothing is evicted then.
    pub fn take(&mut self, count: u32) -> Option<Vec<Page>> {
        let counts = self.counts();
        if count > counts.available() {
            return None;
        }
        self.evict(count.saturating_sub(counts.free));
        let mut pages = Vec::with_capacity(count as usize);
        self.pool.take(count, &mut pages).then_some(pages)
    }

    /// Gives pages of a sequence back.
    pub fn give_back(&mut self, pages: &[Page]) {
        self.pool.give_back(pages);
    }

    /// Frees up to `count` cached pages, least recently used first; returns how many.
    pub fn evict(&mut self, count: u32) -> u32 {
        let pages = self.tree.evict(count);
        self.pool.reclaim(&pages);
        self.evicted += pages.len() as u64;
        pages.len() as u32
    }

    /// Forgets every prefix that no lease pins.
    pub fn clear(&mut self) {
        let pages = self.tree.evict(u32::MAX);
        self.pool.reclaim(&pages);
    }

    fn lease(&mut self, namespace: &Namespace, node: Option<NodeId>) -> PrefixLease {
        if let Some(node) = node {
            self.tree.pin(node);
        }
        PrefixLease {
            namespace: namespace.clone(),
            node,
        }
    }
}
