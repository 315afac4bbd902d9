//! Tiny models, fakes and goldens for tests, and where to find real material.
//!
//! Used from `tests/` folders only, never by the product: a fake executor gives a whole server without a model, a
//! scripted server gives a load generator something to measure, a runner gives a model steps without an executor,
//! and a served model runs step by step without an engine.

pub mod detour;
pub mod fake_executor;
pub mod golden;
pub mod material;
pub mod recorded;
pub mod runner;
pub mod scripted_server;
pub mod served;
