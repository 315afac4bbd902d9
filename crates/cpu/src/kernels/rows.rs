use std::marker::PhantomData;
use std::ops::Range;

use tensor::{Element, ViewMut};

/// Rows that several tasks write, each its own.
pub(super) struct RowsMut<'a, T> {
    address: *mut T,
    stride: usize,
    rows: usize,
    cols: usize,
    borrow: PhantomData<&'a mut [T]>,
}

// SAFETY: like &mut [T]; which task writes which row is the promise of `row`.
unsafe impl<T: Element> Sync for RowsMut<'_, T> {}
// SAFETY: as above.
unsafe impl<T: Element> Send for RowsMut<'_, T> {}

impl<'a, T: Element> RowsMut<'a, T> {
    /// Takes over a host matrix of this type.
    pub(super) fn new(mut view: ViewMut<'a>) -> Self {
        if view.rows() > 0 {
            // Checks place and type once.
            let _ = view.row_mut::<T>(0);
        }
        Self {
            address: view.address().cast(),
            stride: view.stride(),
            rows: view.rows(),
            cols: view.cols(),
            borrow: PhantomData,
        }
    }

    /// One row.
    ///
    /// # Safety
    /// No other task may hold any of this row.
    #[expect(
        clippy::mut_from_ref,
        reason = "rows are disjoint; the caller promises one holder each"
    )]
    pub(super) unsafe fn row(&self, row: usize) -> &mut [T] {
        // SAFETY: the caller's promise.
        unsafe { self.part(row, 0..self.cols) }
    }

    /// Some columns of a row.
    ///
    /// # Safety
    /// No other task may hold any of these.
    #[expect(
        clippy::mut_from_ref,
        reason = "parts are disjoint; the caller promises one holder each"
    )]
    pub(super) unsafe fn part(&self, row: usize, columns: Range<usize>) -> &mut [T] {
        assert!(
            row < self.rows && columns.end <= self.cols,
            "row {row}, columns {columns:?} of {} × {}",
            self.rows,
            self.cols
        );
        let start = row * self.stride + columns.start;
        // SAFETY: inside the matrix, held by this task alone.
        unsafe { std::slice::from_raw_parts_mut(self.address.add(start), columns.len()) }
    }
}
