//! A vertical scale that takes small and huge values: even when they are alike, by decades when not.

use bench::page::svg::{Canvas, LEFT, Scale, escaped, short, y_axis};

use super::{put, span_from_zero};

/// Values further apart than this are drawn by decades.
const FAR: f64 = 100.0;

/// From values to pixels.
#[derive(Debug, Clone, Copy)]
pub(super) enum Reach {
    /// Equal differences are equally far apart.
    Even(Scale),
    /// Equal ratios are: a scale of decimal logarithms.
    Decades(Scale),
}

impl Reach {
    /// A scale for these values between two pixels.
    pub(super) fn of(values: impl Iterator<Item = f64> + Clone, pixels: (f64, f64)) -> Self {
        let (low, high) = values
            .clone()
            .fold((f64::INFINITY, 0.0_f64), |(low, high), value| {
                (low.min(value), high.max(value))
            });
        if low > 0.0 && high / low > FAR {
            let room = 0.05 * (high / low).log10();
            let ends = (low.log10() - room, high.log10() + room);
            Self::Decades(Scale::new(ends, pixels))
        } else {
            Self::Even(Scale::new(span_from_zero(values), pixels))
        }
    }

    /// The pixel of a value.
    pub(super) fn at(self, value: f64) -> f64 {
        match self {
            Self::Even(scale) => scale.at(value),
            Self::Decades(scale) => scale.at(value.max(f64::MIN_POSITIVE).log10()),
        }
    }

    /// The vertical axis.
    pub(super) fn axis(self, canvas: Canvas, title: &str) -> String {
        let scale = match self {
            Self::Even(scale) => return y_axis(canvas, scale, title),
            Self::Decades(scale) => scale,
        };
        let mut out = String::new();
        let right = canvas.right();
        let decades = scale.ticks(12);
        for power in decades.into_iter().filter(|power| power.fract() == 0.0) {
            let (y, text) = (scale.at(power), short(10_f64.powf(power)));
            put(
                &mut out,
                format_args!(
                    "<line class=\"grid\" x1=\"{LEFT}\" y1=\"{y:.1}\" x2=\"{right}\" y2=\"{y:.1}\"/>\
                     <text class=\"tick\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{text}</text>",
                    LEFT - 6.0,
                    y + 3.5
                ),
            );
        }
        let middle = canvas.bottom() / 2.0;
        put(
            &mut out,
            format_args!(
                "<text class=\"axis\" transform=\"translate(13 {middle:.1}) rotate(-90)\" \
                 text-anchor=\"middle\">{}</text>",
                escaped(title)
            ),
        );
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_far_apart_are_drawn_by_decades() {
        let reach = |values: &[f64]| Reach::of(values.iter().copied(), (100.0, 0.0));
        assert!(matches!(reach(&[1.0, 50.0]), Reach::Even(_)));
        assert!(matches!(reach(&[0.0, 50_000.0]), Reach::Even(_)));
        let far = reach(&[1.0, 1e6]);
        assert!(matches!(far, Reach::Decades(_)));
        assert!((far.at(1e3) - 50.0).abs() < 1e-9);
        let axis = far.axis(Canvas::new(100.0, 100.0), "ms");
        for tick in [">1<", ">100<", ">1M<"] {
            assert!(axis.contains(tick), "{tick} in {axis}");
        }
    }
}
