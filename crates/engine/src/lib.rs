//! The engine thread and its handle.
