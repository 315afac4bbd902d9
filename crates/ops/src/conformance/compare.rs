//! How far a device may be from the reference.

use tensor::DType;

/// What a result was computed from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Floats of the device's activations and keys.
    Float(DType),
    /// A linear layer of a quantised weight.
    Quantised,
    /// A linear layer of a weight of eight-bit floats.
    Float8,
    /// Integers, copies and decisions: all or nothing.
    Exact,
}

/// Largest ‖out − reference‖ / ‖reference‖ by op and kind.
#[derive(Clone, Copy, Debug)]
pub struct Tolerances {
    /// Linear layers of quantised weights: activations may be rounded to bytes.
    pub quantised: f64,
    /// Linear layers of eight-bit floats: activations may be rounded to such floats too, each by up to a sixteenth.
    pub float8: f64,
}

impl Default for Tolerances {
    fn default() -> Self {
        Self {
            quantised: 2e-2,
            float8: 4e-2,
        }
    }
}

impl Tolerances {
    /// For devices that do not round activations.
    pub const EXACT: Self = Self {
        quantised: 2e-6,
        float8: 2e-6,
    };

    /// The bound for one result.
    pub fn bound(&self, op: &str, kind: Kind) -> f64 {
        match kind {
            Kind::Exact => 0.0,
            Kind::Quantised => self.quantised,
            // Two products in a row, each of which may round its inputs.
            Kind::Float8 if op.starts_with("norm, linear") => 2.0 * self.float8,
            Kind::Float8 => self.float8,
            Kind::Float(DType::F32) => match op {
                "attend" | "gated_activation" | "norm, linear" | "norm, linear, gates" => 2e-6,
                "log_probs" => 1e-5,
                // A key may fall on the other side of a rounding border of the cache's type.
                "rope_attend" => 3e-5,
                _ => 1e-6,
            },
            Kind::Float(DType::F16) => 1e-3,
            // Keys of eight bits too: they are rounded once, from what was rotated.
            Kind::Float(_) => 8e-3,
        }
    }
}

/// ‖out − reference‖ / ‖reference‖; infinite when something is not a number or only one of two is infinite.
pub(super) fn error(out: &[f64], reference: &[f64]) -> f64 {
    let (mut wrong, mut size) = (0.0, 0.0);
    for (&out, &reference) in out.iter().zip(reference) {
        if reference.is_infinite() && out.to_bits() == reference.to_bits() {
            continue;
        }
        if !out.is_finite() || reference.is_infinite() {
            return f64::INFINITY;
        }
        wrong += (out - reference).powi(2);
        size += reference.powi(2);
    }
    if wrong == 0.0 {
        0.0
    } else {
        (wrong / size).sqrt()
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::float_cmp, reason = "equal inputs must give exactly zero")]

    use super::*;
    use crate::{float8, rng};

    #[test]
    fn keys_that_are_rounded_twice_are_beyond_their_bound() {
        let numbers: Vec<f32> = (0..20_000_u64)
            .map(|i| {
                let words = rng::philox(3, i, 0);
                words
                    .map(|word| word as f32 / 4_294_967_296.0 - 0.5)
                    .iter()
                    .sum()
            })
            .collect();
        let stored = |number: f32| f64::from(float8::decode(float8::encode(number)));
        for loud in [1.0, 300.0] {
            let rounded = |&number: &f32| half::bf16::from_f32(loud * number).to_f32();
            let twice: Vec<f64> = numbers.iter().map(|n| stored(rounded(n))).collect();
            let once: Vec<f64> = numbers.iter().map(|&n| stored(loud * n)).collect();
            let bound = Tolerances::default().bound("rope_store_kv", Kind::Float(DType::F8E4M3));
            let found = error(&twice, &once);
            assert!(found > bound, "{found:e}, loud {loud}");
        }
    }

    #[test]
    fn an_error_is_relative_and_poison_is_infinite() {
        assert_eq!(error(&[3.0, 4.0], &[3.0, 4.0]), 0.0);
        assert!((error(&[3.0, 5.0], &[3.0, 4.0]) - 0.2).abs() < 1e-12);
        assert_eq!(error(&[f64::NAN], &[1.0]), f64::INFINITY);
        assert_eq!(error(&[1.0], &[f64::NEG_INFINITY]), f64::INFINITY);
        let low = f64::NEG_INFINITY;
        assert_eq!(error(&[low, 1.0], &[low, 1.0]), 0.0);
    }
}
