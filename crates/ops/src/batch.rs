//! The ragged batch of a step and the memory of keys and values.

use std::marker::PhantomData;

use tensor::{DType, Place, View, ViewMut};

/// Heads of an attention layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Heads {
    /// Query heads.
    pub query: usize,
    /// Key and value heads; divides `query`.
    pub kv: usize,
    /// Elements in a head.
    pub dim: usize,
}

impl Heads {
    /// Elements in all query heads.
    pub fn query_width(&self) -> usize {
        self.query * self.dim
    }

    /// Elements in all key (or value) heads.
    pub fn kv_width(&self) -> usize {
        self.kv * self.dim
    }

    /// Query heads that share a key head.
    pub fn group(&self) -> usize {
        self.query / self.kv
    }
}

/// Which tokens belong to whom in a step: `tokens` new tokens of `rows` sequences, back to back.
///
/// All views are device memory. Host code may rely on their shapes only, never on their contents (a captured graph would
/// freeze them).
#[derive(Clone, Copy, Debug)]
pub struct RaggedBatch<'a> {
    /// `[1, rows + 1]` u32: where each sequence's new tokens start; the last entry is the number of tokens.
    pub starts: View<'a>,
    /// `[1, rows]` u32: tokens each sequence has in KV memory once this step has stored its new ones.
    pub lengths: View<'a>,
    /// `[1, rows]` u32: the row of the page table that belongs to each sequence.
    pub table_rows: View<'a>,
    /// `[max rows, max pages]` u32: pages of every sequence, in order of position.
    pub page_table: View<'a>,
    /// Token positions in a page.
    pub page_size: usize,
    /// The most new tokens any sequence of this batch (or of its graph bucket) has: 1 when all decode.
    pub max_query: usize,
}

impl RaggedBatch<'_> {
    /// Sequences in the batch.
    pub fn rows(&self) -> usize {
        self.lengths.cols()
    }
}

/// Keys and values of one layer: two matrices `[slots, kv heads × head dim]`.
///
/// The one exception to the borrow rule: it is written through a shared handle. That no two tokens of a step write one
/// slot is the page table's business, and `kv`'s integrity check says so.
#[derive(Clone, Copy, Debug)]
pub struct KvCache<'a> {
    keys: View<'a>,
    values: View<'a>,
    shared: PhantomData<&'a ()>,
}

impl<'a> KvCache<'a> {
    /// Two matrices of equal shape that are used through this handle alone.
    pub fn new(keys: ViewMut<'a>, values: ViewMut<'a>) -> Self {
        assert_eq!(
            (keys.rows(), keys.cols()),
            (values.rows(), values.cols()),
            "keys and values have one shape"
        );
        assert_eq!(
            keys.dtype(),
            values.dtype(),
            "keys and values have one type"
        );
        Self {
            keys: keys.into_view(),
            values: values.into_view(),
            shared: PhantomData,
        }
    }

    /// Keys, to read.
    pub fn keys(&self) -> View<'a> {
        self.keys
    }

    /// Values, to read.
    pub fn values(&self) -> View<'a> {
        self.values
    }

    /// Keys, to write slots that nobody else uses in this step.
    ///
    /// # Safety
    /// The caller writes only slots given to it by the step's batch, and nobody reads them meanwhile.
    #[expect(
        unsafe_code,
        reason = "KV memory is addressed by slots, not by borrows"
    )]
    pub unsafe fn keys_mut(&self) -> ViewMut<'a> {
        // SAFETY: the caller's promise.
        unsafe { writable(self.keys) }
    }

    /// Values, to write slots that nobody else uses in this step.
    ///
    /// # Safety
    /// As [`Self::keys_mut`].
    #[expect(
        unsafe_code,
        reason = "KV memory is addressed by slots, not by borrows"
    )]
    pub unsafe fn values_mut(&self) -> ViewMut<'a> {
        // SAFETY: the caller's promise.
        unsafe { writable(self.values) }
    }

    /// Token positions there is memory for.
    pub fn slots(&self) -> usize {
        self.keys.rows()
    }

    /// Type of keys and values.
    pub fn dtype(&self) -> DType {
        self.keys.dtype()
    }

    /// Where the memory lies.
    pub fn place(&self) -> Place {
        self.keys.place()
    }
}

/// Memory that is read and written through one shared handle.
///
/// # Safety
/// The memory was given away as a `ViewMut`, and nothing else uses what the caller writes.
#[expect(unsafe_code, reason = "memory of caches and tables is shared")]
pub(crate) unsafe fn writable(view: View<'_>) -> ViewMut<'_> {
    let address = view.address().cast_mut();
    // SAFETY: the caller's promise.
    unsafe {
        ViewMut::from_raw(
            address,
            view.rows(),
            view.cols(),
            view.stride(),
            view.dtype(),
            view.place(),
        )
    }
}
