//! Memory for weights and keys in huge pages, so that reading it in order does not wait for address translation.

use std::sync::Arc;

use tensor::{Buffer, Place};

/// A huge page; memory below this size is taken from the heap or from a [`Store`].
const HUGE: usize = 2 << 20;
/// What a store takes from the system at once; untouched pages cost nothing.
const CHUNK: usize = 64 << 20;

/// Zeroed memory of its own.
pub(crate) fn allocate(bytes: usize) -> Buffer {
    if bytes < HUGE {
        return Buffer::host(bytes);
    }
    match Mapping::new(bytes) {
        // SAFETY: the mapping has these bytes, lives until released, and has no other owner.
        Some(mapping) => unsafe {
            let address = mapping.address;
            let release = Box::new(move |_, _| drop(mapping));
            Buffer::from_raw(address, bytes, Place::Host, release)
        },
        None => Buffer::host(bytes),
    }
}

/// Many smaller buffers side by side in huge pages, freed together when the last of them is.
#[derive(Default)]
pub(crate) struct Store {
    chunk: Option<Arc<Mapping>>,
    used: usize,
}

impl Store {
    /// Zeroed memory.
    pub(crate) fn take(&mut self, bytes: usize) -> Buffer {
        let size = bytes.next_multiple_of(Buffer::HOST_ALIGNMENT);
        if size > CHUNK / 4 {
            return allocate(bytes);
        }
        if self.chunk.is_none() || self.used + size > CHUNK {
            self.chunk = Mapping::new(CHUNK).map(Arc::new);
            self.used = 0;
        }
        let Some(chunk) = &self.chunk else {
            return Buffer::host(bytes);
        };
        let (start, chunk) = (self.used, Arc::clone(chunk));
        self.used += size;
        // SAFETY: these bytes of the chunk have no other owner, and the chunk lives until released.
        unsafe {
            let address = chunk.address.add(start);
            let release = Box::new(move |_, _| drop(chunk));
            Buffer::from_raw(address, bytes, Place::Host, release)
        }
    }
}

/// Anonymous memory from the system, aligned to huge pages.
struct Mapping {
    base: *mut libc::c_void,
    length: usize,
    address: *mut u8,
}

// SAFETY: plain memory that the value owns.
unsafe impl Send for Mapping {}
// SAFETY: shared access gives out the address only; who may write where is decided above.
unsafe impl Sync for Mapping {}

impl Mapping {
    fn new(bytes: usize) -> Option<Self> {
        let length = bytes.next_multiple_of(HUGE).checked_add(HUGE)?;
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        // SAFETY: a new anonymous mapping touches no memory of ours.
        let base = unsafe { libc::mmap(std::ptr::null_mut(), length, protection, flags, -1, 0) };
        if base == libc::MAP_FAILED {
            return None;
        }
        let start = base.cast::<u8>();
        let address = start.wrapping_add(start.align_offset(HUGE));
        let huge = bytes.next_multiple_of(HUGE);
        // SAFETY: inside the mapping; only advice, so a refusal changes nothing.
        unsafe { libc::madvise(address.cast(), huge, libc::MADV_HUGEPAGE) };
        Some(Self {
            base,
            length,
            address,
        })
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: mapped by `new` with this length, no longer used.
        unsafe { libc::munmap(self.base, self.length) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tensor::DType;

    #[test]
    fn buffers_of_a_store_are_zeroed_apart_and_outlive_it() {
        let mut store = Store::default();
        let sizes = [
            1,
            64,
            1000,
            HUGE + 5,
            CHUNK / 4 + 1,
            CHUNK / 4,
            CHUNK / 4,
            CHUNK / 4,
        ];
        let mut buffers: Vec<Buffer> = sizes.map(|bytes| store.take(bytes)).into();
        drop(store);
        for (index, buffer) in buffers.iter_mut().enumerate() {
            let bytes = buffer.bytes();
            assert_eq!(bytes, sizes[index]);
            assert_eq!(buffer.address() as usize % Buffer::HOST_ALIGNMENT, 0);
            let slice: &mut [u8] = buffer.view_mut(0, 1, bytes, DType::U8).into_slice();
            assert_eq!((slice[0], slice[bytes - 1]), (0, 0));
            slice[0] = index as u8 + 1;
            slice[bytes - 1] = index as u8 + 1;
        }
        for (index, buffer) in buffers.iter().enumerate() {
            let slice: &[u8] = buffer.view(0, 1, buffer.bytes(), DType::U8).into_slice();
            assert_eq!(slice[0], index as u8 + 1);
        }
    }
}
