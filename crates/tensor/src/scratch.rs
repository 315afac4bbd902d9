use std::cell::Cell;

use crate::{Buffer, DType, ViewMut};

/// The bump arena of a step.
///
/// For a given sequence of requests the addresses are the same every time, so they may be captured in a graph.
pub struct Scratch {
    buffer: Buffer,
    used: Cell<usize>,
    peak: Cell<usize>,
    depth: Cell<usize>,
}

/// A level of the arena; what it handed out ends with it.
pub struct Scope<'s> {
    scratch: &'s Scratch,
    start: usize,
    depth: usize,
}

impl Scratch {
    /// Every matrix starts at a multiple of this.
    pub const ALIGNMENT: usize = 256;

    /// An arena over a buffer.
    pub fn new(buffer: Buffer) -> Self {
        Self {
            buffer,
            used: Cell::new(0),
            peak: Cell::new(0),
            depth: Cell::new(0),
        }
    }

    /// An arena without memory that only measures what would be needed.
    pub fn measuring() -> Self {
        Self::new(Buffer::nowhere(usize::MAX / 4))
    }

    /// Opens a level.
    pub fn scope(&self) -> Scope<'_> {
        let depth = self.depth.get() + 1;
        self.depth.set(depth);
        Scope {
            scratch: self,
            start: self.used.get(),
            depth,
        }
    }

    /// The most bytes that were ever in use.
    pub fn peak(&self) -> usize {
        self.peak.get()
    }
}

impl Scope<'_> {
    /// Hands out a matrix with undefined contents.
    ///
    /// Panics when an inner scope is open or the arena is exhausted: both are errors of the program, not of a request.
    pub fn matrix(&self, rows: usize, cols: usize, dtype: DType) -> ViewMut<'_> {
        let scratch = self.scratch;
        assert_eq!(
            scratch.depth.get(),
            self.depth,
            "only the innermost scope hands out memory"
        );
        let start = scratch.used.get();
        let bytes = (rows * cols * dtype.size()).next_multiple_of(Scratch::ALIGNMENT);
        let end = start + bytes;
        assert!(
            end <= scratch.buffer.bytes(),
            "the step needs {end} bytes of scratch, the arena has {}",
            scratch.buffer.bytes()
        );
        scratch.used.set(end);
        scratch.peak.set(scratch.peak.get().max(end));
        let address = scratch.buffer.address().wrapping_add(start);
        // SAFETY: `start..end` is inside the buffer and handed to nobody else until this scope ends.
        unsafe { ViewMut::from_raw(address, rows, cols, cols, dtype, scratch.buffer.place()) }
    }

    /// Opens an inner level.
    pub fn scope(&self) -> Scope<'_> {
        self.scratch.scope()
    }
}

impl Drop for Scope<'_> {
    fn drop(&mut self) {
        self.scratch.used.set(self.start);
        self.scratch.depth.set(self.depth - 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_measuring_arena_finds_the_peak_of_nested_scopes() {
        let scratch = Scratch::measuring();
        let outer = scratch.scope();
        let _kept = outer.matrix(1, 64, DType::F32);
        {
            let inner = outer.scope();
            let _gone = inner.matrix(2, 64, DType::F32);
        }
        let _again = outer.matrix(1, 1, DType::U8);
        assert_eq!(scratch.peak(), 256 + 512);
    }

    #[test]
    fn equal_requests_get_equal_addresses() {
        let scratch = Scratch::new(Buffer::host(4096));
        let first = { scratch.scope().matrix(3, 5, DType::F32).address() };
        let second = { scratch.scope().matrix(3, 5, DType::F32).address() };
        assert_eq!(first, second);
    }

    #[test]
    #[should_panic(expected = "only the innermost scope")]
    fn an_outer_scope_hands_out_nothing_while_an_inner_one_is_open() {
        let scratch = Scratch::measuring();
        let outer = scratch.scope();
        let _inner = outer.scope();
        let _refused = outer.matrix(1, 1, DType::F32);
    }
}
