//! Who owns each page.

use crate::Page;

/// The one owner of a page at any time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Owner {
    /// Nobody: it can be handed out.
    Free,
    /// A sequence, alone.
    Leased,
    /// The radix tree; leases on its node say who else reads it.
    Cached,
}

/// All pages that may be handed out, by owner.
///
/// Because a page has one owner, no reference counts are needed: sharing is counted by the
/// tree's nodes, not by pages.
#[derive(Debug)]
pub(crate) struct Pool {
    free: Vec<Page>,
    /// By page number; the dummy page's entry is never looked at.
    owners: Vec<Owner>,
    cached: u32,
}

impl Pool {
    /// Pages `1..=total`, all free.
    pub(crate) fn new(total: u32) -> Self {
        Self {
            free: (1..=total).rev().map(Page).collect(),
            owners: vec![Owner::Free; total as usize + 1],
            cached: 0,
        }
    }

    pub(crate) fn total(&self) -> u32 {
        self.owners.len() as u32 - 1
    }

    pub(crate) fn free_count(&self) -> u32 {
        self.free.len() as u32
    }

    pub(crate) fn cached_count(&self) -> u32 {
        self.cached
    }

    pub(crate) fn free_pages(&self) -> &[Page] {
        &self.free
    }

    pub(crate) fn owner(&self, page: Page) -> Option<Owner> {
        if page == Page::DUMMY {
            None
        } else {
            self.owners.get(page.index()).copied()
        }
    }

    /// Takes `count` free pages into `pages`; nothing when there are fewer.
    pub(crate) fn take(&mut self, count: u32, pages: &mut Vec<Page>) -> bool {
        if count > self.free_count() {
            return false;
        }
        for _ in 0..count {
            let page = self.free.pop().expect("the free pages were counted");
            self.change(page, Owner::Free, Owner::Leased);
            pages.push(page);
        }
        true
    }

    /// Gives pages of a sequence back; the first is handed out first again.
    pub(crate) fn give_back(&mut self, pages: &[Page]) {
        for &page in pages.iter().rev() {
            self.change(page, Owner::Leased, Owner::Free);
            self.free.push(page);
        }
    }

    /// Makes pages of a sequence the tree's.
    pub(crate) fn adopt(&mut self, pages: &[Page]) {
        for &page in pages {
            self.change(page, Owner::Leased, Owner::Cached);
        }
        self.cached += pages.len() as u32;
    }

    /// Frees pages that the tree gave up.
    pub(crate) fn reclaim(&mut self, pages: &[Page]) {
        for &page in pages {
            self.change(page, Owner::Cached, Owner::Free);
            self.free.push(page);
        }
        self.cached -= pages.len() as u32;
    }

    fn change(&mut self, page: Page, from: Owner, to: Owner) {
        let owner = &mut self.owners[page.index()];
        assert!(
            *owner == from && page != Page::DUMMY,
            "{page:?} belongs to {owner:?} and cannot go from {from:?} to {to:?}"
        );
        *owner = to;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_dummy_page_is_never_handed_out() {
        let mut pool = Pool::new(3);
        let mut pages = Vec::new();
        assert!(pool.take(3, &mut pages));
        assert_eq!(pages, [Page(1), Page(2), Page(3)]);
        assert!(!pool.take(1, &mut pages));
    }

    #[test]
    #[should_panic(expected = "Page(2) belongs to Free")]
    fn a_page_given_back_twice_is_noticed() {
        let mut pool = Pool::new(3);
        let mut pages = Vec::new();
        pool.take(2, &mut pages);
        pool.give_back(&pages);
        pool.give_back(&[Page(2)]);
    }
}
