//! Model specs, layers and architectures over ops.
