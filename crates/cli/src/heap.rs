//! How the allocator gives large memory back.
#![expect(unsafe_code, reason = "settings of the C library have no safe wrapper")]

/// Allocations from this size on are mapped by themselves: freed, they go back to the system at once.
///
/// Left alone, the C library raises this size with each large allocation that is freed, up to 32 MiB; then bodies of
/// tens of megabytes stay with the process.
#[cfg(target_env = "gnu")]
const MAPPED: i32 = 1 << 20;

/// Keeps large allocations out of the heap.
pub(crate) fn give_large_memory_back() {
    #[cfg(target_env = "gnu")]
    // SAFETY: takes two numbers; it is called before other threads allocate.
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, MAPPED);
        libc::mallopt(libc::M_TRIM_THRESHOLD, MAPPED);
    }
}
