//! The random streams of the reference clients, draw for draw.
//!
//! Prompts and arrival gaps are bit-identical to the reference only when every draw is made by the
//! same generator in the same order: [`PythonRandom`] for shuffles and picks, [`NumpyRandom`] for
//! lengths and gaps, [`Pcg64`] for Zipf groups.

mod mt19937;
mod numpy;
mod pcg64;
mod python;

pub use numpy::NumpyRandom;
pub use pcg64::Pcg64;
pub use python::PythonRandom;

/// The two global streams a run draws from, seeded alike.
#[derive(Clone)]
pub struct Streams {
    /// Shuffles, token picks, uniform adapter choice.
    pub python: PythonRandom,
    /// Lengths, offsets, arrival gaps, skewed adapter choice.
    pub numpy: NumpyRandom,
}

impl Streams {
    /// Both streams as the reference seeds them at start-up.
    pub fn seeded(seed: u32) -> Self {
        Self {
            python: PythonRandom::seeded(seed),
            numpy: NumpyRandom::seeded(seed),
        }
    }
}

/// The index a uniform draw selects under a list of probabilities.
///
/// Sums and divides in the order of NumPy's `choice`, so that boundary draws fall on the same side.
fn weighted_index(probabilities: &[f64], uniform: f64) -> usize {
    let mut cumulative = Vec::with_capacity(probabilities.len());
    let mut sum = 0.0;
    for probability in probabilities {
        sum += probability;
        cumulative.push(sum);
    }
    cumulative
        .iter()
        .position(|bound| uniform < bound / sum)
        .unwrap_or(probabilities.len().saturating_sub(1))
}
