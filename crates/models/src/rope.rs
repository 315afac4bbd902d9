/// How positions turn into angles.
#[derive(Clone, Debug, PartialEq)]
pub struct RopeSpec {
    /// Base of the frequencies.
    pub base: f64,
    /// Elements of a head that are rotated; even.
    pub dim: usize,
    /// What is done for sequences longer than those of the first training.
    pub scaling: RopeScaling,
}

/// Changes of the frequencies.
#[derive(Clone, Debug, PartialEq)]
pub enum RopeScaling {
    /// None.
    None,
    /// All frequencies divided by one factor.
    Linear {
        /// The factor.
        factor: f64,
    },
    /// Llama 3: low frequencies divided, high ones kept, those between blended.
    Llama3 {
        /// Divides low frequencies.
        factor: f64,
        /// Wavelengths above original / this are low.
        low: f64,
        /// Wavelengths below original / this are high.
        high: f64,
        /// Longest sequence of the first training.
        original: f64,
    },
    /// Each frequency divided by its own factor, as GGUF files store Llama 3's.
    Factors(Vec<f32>),
}

impl RopeSpec {
    /// Angles a position, for each rotated pair.
    fn frequencies(&self) -> Vec<f64> {
        let half = self.dim / 2;
        let plain = |pair: usize| self.base.powf(-((2 * pair) as f64) / self.dim as f64);
        (0..half)
            .map(|pair| match &self.scaling {
                RopeScaling::None => plain(pair),
                RopeScaling::Linear { factor } => plain(pair) / factor,
                RopeScaling::Factors(factors) => plain(pair) / f64::from(factors[pair]),
                RopeScaling::Llama3 {
                    factor,
                    low,
                    high,
                    original,
                } => {
                    let frequency = plain(pair);
                    let wavelength = std::f64::consts::TAU / frequency;
                    if wavelength < original / high {
                        frequency
                    } else if wavelength > original / low {
                        frequency / factor
                    } else {
                        let smooth = (original / wavelength - low) / (high - low);
                        (1.0 - smooth) * frequency / factor + smooth * frequency
                    }
                }
            })
            .collect()
    }

    /// `[positions, dim]`: cosines in the first half of a row, sines in the second.
    pub fn table(&self, positions: usize) -> Vec<f32> {
        let frequencies = self.frequencies();
        let mut table = Vec::with_capacity(positions * self.dim);
        for position in 0..positions {
            // The reference library keeps frequencies and angles in f32.
            let angles = frequencies
                .iter()
                .map(|&frequency| f64::from(position as f32 * frequency as f32));
            table.extend(angles.clone().map(|angle| angle.cos() as f32));
            table.extend(angles.map(|angle| angle.sin() as f32));
        }
        table
    }
}
