//! Tiny models, fakes and goldens for tests, and where to find real material.
//!
//! Used from `tests/` folders only, never by the product: a fake executor gives a whole server without a model, a
//! scripted server gives a load generator something to measure.

pub mod fake_executor;
pub mod material;
pub mod scripted_server;
