use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};

use crate::{DType, View, ViewMut};

/// Who can read an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Ordinary memory of this process.
    Host,
    /// Memory of an accelerator; only its kernels may follow the address.
    Device,
    /// No memory at all: shapes are real, addresses are not (dry runs).
    Nowhere,
}

type Release = Box<dyn FnOnce(*mut u8, usize) + Send>;

/// One owned allocation and how to free it.
pub struct Buffer {
    address: *mut u8,
    bytes: usize,
    place: Place,
    release: Option<Release>,
}

// SAFETY: a buffer owns its memory like a Box<[u8]> does; the release closure is Send.
unsafe impl Send for Buffer {}
// SAFETY: shared access only reads, and mutable views need `&mut Buffer`.
unsafe impl Sync for Buffer {}

impl Buffer {
    /// Alignment of host buffers: a cache line and an AVX-512 register.
    pub const HOST_ALIGNMENT: usize = 64;

    /// Zeroed host memory.
    pub fn host(bytes: usize) -> Self {
        // Aligned by hand: asked for more than its usual alignment, the allocator writes every zero
        // itself, and memory that nobody has used yet would be taken all the same.
        let layout = Layout::from_size_align(
            bytes.saturating_add(Self::HOST_ALIGNMENT),
            align_of::<u64>(),
        )
        .expect("an allocation this large fails earlier");
        // SAFETY: the layout has a non-zero size.
        let start = unsafe { alloc_zeroed(layout) };
        if start.is_null() {
            handle_alloc_error(layout);
        }
        let skipped = start.align_offset(Self::HOST_ALIGNMENT);
        // SAFETY: fewer bytes are skipped than were asked for on top.
        let address = unsafe { start.add(skipped) };
        // SAFETY: goes back to where the allocation starts, and releases it with its own layout.
        let release: Release =
            Box::new(move |address, _| unsafe { dealloc(address.sub(skipped), layout) });
        Self {
            address,
            bytes,
            place: Place::Host,
            release: Some(release),
        }
    }

    /// A buffer of addresses that nobody may follow.
    pub fn nowhere(bytes: usize) -> Self {
        let address = Self::HOST_ALIGNMENT as *mut u8;
        Self {
            address,
            bytes,
            place: Place::Nowhere,
            release: None,
        }
    }

    /// Takes over an allocation made elsewhere.
    ///
    /// # Safety
    /// `address` must be valid for `bytes` bytes at `place` until `release` is called, and owned by nobody else.
    pub unsafe fn from_raw(address: *mut u8, bytes: usize, place: Place, release: Release) -> Self {
        Self {
            address,
            bytes,
            place,
            release: Some(release),
        }
    }

    /// Its size in bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Where it lies.
    pub fn place(&self) -> Place {
        self.place
    }

    /// The first address.
    pub fn address(&self) -> *mut u8 {
        self.address
    }

    /// Reads it as a matrix that starts at byte `offset`.
    pub fn view(&self, offset: usize, rows: usize, cols: usize, dtype: DType) -> View<'_> {
        self.check(offset, rows, cols, dtype);
        // SAFETY: inside the allocation, borrowed from self.
        unsafe {
            View::from_raw(
                self.address.add(offset),
                rows,
                cols,
                cols,
                dtype,
                self.place,
            )
        }
    }

    /// Writes it as a matrix that starts at byte `offset`.
    pub fn view_mut(
        &mut self,
        offset: usize,
        rows: usize,
        cols: usize,
        dtype: DType,
    ) -> ViewMut<'_> {
        self.check(offset, rows, cols, dtype);
        // SAFETY: inside the allocation, borrowed mutably from self.
        unsafe {
            ViewMut::from_raw(
                self.address.add(offset),
                rows,
                cols,
                cols,
                dtype,
                self.place,
            )
        }
    }

    fn check(&self, offset: usize, rows: usize, cols: usize, dtype: DType) {
        let end = offset + rows * cols * dtype.size();
        assert!(
            end <= self.bytes,
            "a view of {end} bytes exceeds its buffer of {} bytes",
            self.bytes
        );
        assert!(
            offset.is_multiple_of(dtype.size()),
            "a view of {dtype} starts at odd byte {offset}"
        );
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        if let Some(release) = self.release.take() {
            release(self.address, self.bytes);
        }
    }
}
