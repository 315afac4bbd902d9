//! The pages of one sequence.

use crate::{Page, PageSize};

/// Which pages hold a sequence's positions, in order.
///
/// The first pages may belong to the radix tree (a lease pins them there); the others belong to
/// this table alone.
#[derive(Debug)]
pub struct PageTable {
    pages: Vec<Page>,
    shared: usize,
    page_size: PageSize,
}

impl PageTable {
    /// A table that begins with pages of the tree.
    pub fn new(page_size: PageSize, shared: Vec<Page>) -> Self {
        Self {
            shared: shared.len(),
            pages: shared,
            page_size,
        }
    }

    /// All pages in order.
    pub fn pages(&self) -> &[Page] {
        &self.pages
    }

    /// How many pages there are.
    pub fn len(&self) -> u32 {
        self.pages.len() as u32
    }

    /// Whether there is no page.
    pub fn is_empty(&self) -> bool {
        self.pages.is_empty()
    }

    /// How many of the first pages belong to the tree.
    pub fn shared(&self) -> u32 {
        self.shared as u32
    }

    /// The pages that belong to this table alone.
    pub fn private(&self) -> &[Page] {
        &self.pages[self.shared..]
    }

    /// How many pages must be added before `tokens` positions fit.
    pub fn missing_for(&self, tokens: u32) -> u32 {
        self.page_size.pages_for(tokens).saturating_sub(self.len())
    }

    /// Adds pages that belong to this table alone.
    pub fn append(&mut self, pages: &[Page]) {
        self.pages.extend_from_slice(pages);
    }

    /// The first `count` private pages were offered to the tree, which had the first of them
    /// already as `known` and took the rest. Returns the pages that `known` replaced; they still
    /// have to be given back.
    pub fn share(&mut self, count: u32, known: &[Page]) -> Vec<Page> {
        let replaced = &mut self.pages[self.shared..self.shared + known.len()];
        let duplicates = replaced.to_vec();
        replaced.copy_from_slice(known);
        self.shared += count as usize;
        duplicates
    }

    /// Ends the table; returns the pages that belonged to it alone.
    pub fn into_private(mut self) -> Vec<Page> {
        self.pages.split_off(self.shared)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pages(numbers: &[u32]) -> Vec<Page> {
        numbers.iter().copied().map(Page).collect()
    }

    #[test]
    fn pages_known_to_the_tree_replace_private_ones() {
        let mut table = PageTable::new(PageSize::ONE, pages(&[1, 2]));
        table.append(&pages(&[5, 6, 7, 8]));
        assert_eq!(table.share(3, &pages(&[3])), pages(&[5]));
        assert_eq!(table.pages(), pages(&[1, 2, 3, 6, 7, 8]));
        assert_eq!(table.shared(), 5);
        assert_eq!(table.into_private(), pages(&[8]));
    }

    #[test]
    fn a_page_is_missing_only_beyond_the_last_one() {
        let mut table = PageTable::new(PageSize::new(4).unwrap(), Vec::new());
        assert_eq!(table.missing_for(1), 1);
        table.append(&pages(&[9]));
        assert_eq!(
            (
                table.missing_for(4),
                table.missing_for(5),
                table.missing_for(13)
            ),
            (0, 1, 3)
        );
    }
}
