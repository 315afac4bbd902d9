//! The units of KV memory.

use std::num::NonZeroU32;

/// An index into the model's vocabulary.
pub type Token = u32;

/// A fixed run of token positions of KV memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Page(pub u32);

impl Page {
    /// The page of rows that only pad a batch; it is never handed out.
    pub const DUMMY: Self = Self(0);

    /// The page's number as an index.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// How many token positions a page has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageSize(NonZeroU32);

impl PageSize {
    /// One page per token: the radix tree then shares single tokens.
    pub const ONE: Self = Self(NonZeroU32::MIN);

    /// A page of `tokens` positions; `None` when there are none.
    pub fn new(tokens: u32) -> Option<Self> {
        NonZeroU32::new(tokens).map(Self)
    }

    /// Positions per page.
    pub fn tokens(self) -> u32 {
        self.0.get()
    }

    /// Pages needed to hold `tokens` positions.
    pub fn pages_for(self, tokens: u32) -> u32 {
        tokens.div_ceil(self.tokens())
    }

    /// Pages that `tokens` positions fill completely.
    pub fn full_pages(self, tokens: u32) -> u32 {
        tokens / self.tokens()
    }

    /// The slot of the token at `position` of a row whose table is `pages`.
    pub fn slot(self, pages: &[Page], position: u32) -> u32 {
        let page = pages[(position / self.tokens()) as usize];
        page.0 * self.tokens() + position % self.tokens()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_position_lies_in_the_page_that_holds_it() {
        let size = PageSize::new(4).unwrap();
        let pages = [Page(7), Page(3)];
        assert_eq!(size.slot(&pages, 0), 28);
        assert_eq!(size.slot(&pages, 3), 31);
        assert_eq!(size.slot(&pages, 4), 12);
        assert_eq!((size.pages_for(5), size.full_pages(5)), (2, 1));
    }

    #[test]
    fn a_page_has_at_least_one_position() {
        assert_eq!(PageSize::new(0), None);
        assert_eq!(PageSize::new(1), Some(PageSize::ONE));
    }
}
