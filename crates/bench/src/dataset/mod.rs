//! What is sent: rows made from files, from random numbers, or from both.

mod row;

pub use row::{Prompt, Row, message};
