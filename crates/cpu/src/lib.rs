//! The ops on CPU cores, with SIMD and threads.
