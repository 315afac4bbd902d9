//! Student's distribution.

/// The chance that a value at least this far from zero, on either side, comes about by itself.
pub fn t_two_sided(t: f64, degrees: f64) -> f64 {
    if t.is_nan() || degrees.is_nan() || degrees <= 0.0 {
        return f64::NAN;
    }
    if t.is_infinite() {
        return 0.0;
    }
    incomplete_beta(degrees / 2.0, 0.5, degrees / (degrees + t * t))
}

/// The value that is exceeded with chance `1 - share`; `share` lies between a half and one.
pub fn t_quantile(share: f64, degrees: f64) -> f64 {
    if share.is_nan() || share >= 1.0 || degrees.is_nan() || degrees <= 0.0 {
        return f64::NAN;
    }
    let tail = 2.0 * (1.0 - share);
    let mut t = 0.0;
    // The tail is convex, so Newton's steps from zero never go too far.
    for _ in 0..STEPS {
        let step = (t_two_sided(t, degrees) - tail) / (2.0 * t_density(t, degrees));
        t += step.max(0.0);
        if step <= 1e-12 * (1.0 + t) {
            break;
        }
    }
    t
}

/// Enough steps for a quantile of a million: with one degree a step doubles it.
const STEPS: u32 = 200;

fn t_density(t: f64, degrees: f64) -> f64 {
    let half = f64::midpoint(degrees, 1.0);
    let log =
        ln_gamma(half) - ln_gamma(degrees / 2.0) - 0.5 * (degrees * std::f64::consts::PI).ln();
    (log - half * (t * t / degrees).ln_1p()).exp()
}

/// The regularised incomplete beta function, by its continued fraction.
fn incomplete_beta(a: f64, b: f64, x: f64) -> f64 {
    if x <= 0.0 {
        return 0.0;
    }
    if x >= 1.0 {
        return 1.0;
    }
    let log_front = ln_gamma(a + b) - ln_gamma(a) - ln_gamma(b) + a * x.ln() + b * (-x).ln_1p();
    let front = log_front.exp();
    if x < (a + 1.0) / (a + b + 2.0) {
        front * beta_fraction(a, b, x) / a
    } else {
        1.0 - front * beta_fraction(b, a, 1.0 - x) / b
    }
}

/// Lentz's evaluation of the fraction.
fn beta_fraction(a: f64, b: f64, x: f64) -> f64 {
    const SMALL: f64 = 1e-300;
    let away_from_zero = |value: f64| if value.abs() < SMALL { SMALL } else { value };
    let mut c = 1.0;
    let mut d = 1.0 / away_from_zero(1.0 - (a + b) * x / (a + 1.0));
    let mut fraction = d;
    for step in 1..500 {
        let m = f64::from(step);
        let even = m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m));
        d = 1.0 / away_from_zero(1.0 + even * d);
        c = away_from_zero(1.0 + even / c);
        fraction *= d * c;
        let odd = -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0));
        d = 1.0 / away_from_zero(1.0 + odd * d);
        c = away_from_zero(1.0 + odd / c);
        let change = d * c;
        fraction *= change;
        if (change - 1.0).abs() < 1e-14 {
            break;
        }
    }
    fraction
}

/// The logarithm of the gamma function for positive numbers (Stirling's series after a shift).
fn ln_gamma(x: f64) -> f64 {
    let mut shift = 0.0;
    let mut x = x;
    while x < 15.0 {
        shift -= x.ln();
        x += 1.0;
    }
    let inverse = 1.0 / (x * x);
    let series = inverse.mul_add(
        inverse.mul_add(inverse.mul_add(-1.0 / 1680.0, 1.0 / 1260.0), -1.0 / 360.0),
        1.0 / 12.0,
    );
    let half_log_tau = 0.918_938_533_204_672_8;
    shift + (x - 0.5) * x.ln() - x + half_log_tau + series / x
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statistics::reference::numbers;

    #[test]
    fn tails_and_quantiles_are_those_of_scipy() {
        for row in numbers("tails") {
            let found = t_two_sided(row[0], row[1]);
            let expected = row[2];
            assert!(
                (found - expected).abs() < 1e-12 + 1e-10 * expected,
                "{row:?}: {found}"
            );
        }
        for row in numbers("quantiles") {
            let found = t_quantile(row[0], row[1]);
            let expected = row[2];
            assert!(
                (found - expected).abs() < 1e-8 * (1.0 + expected),
                "{row:?}: {found}"
            );
        }
    }

    #[test]
    fn nonsense_has_no_answer() {
        assert!(t_two_sided(f64::NAN, 3.0).is_nan());
        assert!(t_two_sided(1.0, 0.0).is_nan());
        assert!(t_quantile(1.0, 3.0).is_nan());
        assert!(t_two_sided(f64::INFINITY, 3.0) < f64::MIN_POSITIVE);
    }
}
