//! Remembers the largest allocation of a thread, to show that claims in a file are not believed.

#![expect(unsafe_code, reason = "a global allocator is unsafe by nature")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

struct Watched;

thread_local! {
    static LARGEST: Cell<usize> = const { Cell::new(0) };
}

fn note(bytes: usize) {
    LARGEST.set(LARGEST.get().max(bytes));
}

// SAFETY: everything is passed on to the system's allocator unchanged.
unsafe impl GlobalAlloc for Watched {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        note(layout.size());
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        note(layout.size());
        // SAFETY: the caller's promise.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, address: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        note(bytes);
        // SAFETY: the caller's promise.
        unsafe { System.realloc(address, layout, bytes) }
    }

    unsafe fn dealloc(&self, address: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(address, layout) }
    }
}

#[global_allocator]
static WATCHED: Watched = Watched;

/// Runs `work` and gives the size of its largest allocation.
pub(crate) fn largest_allocation(work: impl FnOnce()) -> usize {
    LARGEST.set(0);
    work();
    LARGEST.get()
}
