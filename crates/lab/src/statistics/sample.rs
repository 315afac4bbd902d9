//! Means, deviations, quantiles.

/// The mean; not a number when there are no values.
pub fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// The standard deviation of the population that the values were drawn from; zero for one value.
pub fn standard_deviation(values: &[f64]) -> f64 {
    variance(values).sqrt()
}

pub(super) fn variance(values: &[f64]) -> f64 {
    if values.len() < 2 {
        return 0.0;
    }
    let centre = mean(values);
    let squares: f64 = values.iter().map(|value| (value - centre).powi(2)).sum();
    squares / (values.len() - 1) as f64
}

/// The value below which this share of the values lies, interpolated; reorders the values.
pub fn quantile(values: &mut [f64], share: f64) -> f64 {
    if values.is_empty() {
        return f64::NAN;
    }
    let place = share.clamp(0.0, 1.0) * (values.len() - 1) as f64;
    let below = place.floor() as usize;
    let (_, low, above) = values.select_nth_unstable_by(below, f64::total_cmp);
    let low = *low;
    let high = above.iter().copied().min_by(f64::total_cmp).unwrap_or(low);
    low + (high - low) * place.fract()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_interpolated_as_numpy_does() {
        let values = [15.0, 20.0, 35.0, 40.0, 50.0];
        // numpy.percentile of these at 0, 40, 50, 99, 100
        let expected = [
            (0.0, 15.0),
            (0.4, 29.0),
            (0.5, 35.0),
            (0.99, 49.6),
            (1.0, 50.0),
        ];
        for (share, expected) in expected {
            let found = quantile(&mut [40.0, 15.0, 50.0, 20.0, 35.0], share);
            assert!((found - expected).abs() < 1e-12, "{share}: {found}");
        }
        assert!((mean(&values) - 32.0).abs() < 1e-12);
        assert!((standard_deviation(&values) - 14.404_860_290_887_934).abs() < 1e-12);
        assert!(quantile(&mut [], 0.5).is_nan());
    }
}
