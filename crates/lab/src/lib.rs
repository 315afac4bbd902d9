//! Many runs: subjects are started and loaded cell by cell, results are kept, compared and told.
//!
//! It says what numbers allow to be said and no more: an effect comes with its interval, arms that
//! differ in more than one thing are named, and a first run that was cold is left out in the open. It
//! measures nothing itself (that is `bench`) and knows servers only by how they are started.

mod check;
pub mod command_line;
pub mod compare;
pub mod diff;
pub mod figures;
pub mod finding;
pub mod import;
pub mod machine;
pub mod metric;
mod requests;
pub mod run;
pub mod statistics;
pub mod verdict;
