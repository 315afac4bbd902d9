//! Figures as functions of records: the reference's arithmetic, and one without its defects.

pub mod cache;
pub mod goodput;
pub mod overlap;
pub mod own;
pub mod reference;
pub mod served;
mod statistics;
pub mod steady;
pub mod strict;
pub mod timing;

pub use statistics::{mean, median, pairwise_sum, percentile, standard_deviation};
