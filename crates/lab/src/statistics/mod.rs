//! What samples allow to be said: tests, intervals, the number of runs needed.
//!
//! Everything is deterministic: random draws come from a generator that is always seeded.

mod bootstrap;
mod cold;
mod draw;
mod permutation;
mod power;
#[cfg(test)]
mod reference;
mod sample;
mod shift;
mod special;
mod t_test;

pub use bootstrap::{Bootstrap, Estimator, RunSample};
pub use cold::{ColdStart, cold_start};
pub use draw::Draw;
pub use permutation::{least_permutation_p, least_sign_flip_p, permutation_p, sign_flip_p};
pub use power::{Design, detectable, runs_needed};
pub use sample::{mean, quantile, standard_deviation};
pub use shift::{Shift, shift};
pub use special::{t_quantile, t_two_sided};
pub use t_test::{Interval, ORDER_COUNTS_FROM, Round, TTest};
