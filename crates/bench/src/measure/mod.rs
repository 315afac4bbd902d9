//! Figures as functions of records.

pub mod cache;
pub mod goodput;
pub mod reference;
mod statistics;

pub use statistics::{mean, median, pairwise_sum, percentile, standard_deviation};
