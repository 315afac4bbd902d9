//! Scales, ticks and the two axes.

use super::{Canvas, LEFT, TOP};
use crate::put::put;

/// From values to pixels.
#[derive(Clone, Copy, Debug)]
pub struct Scale {
    low: f64,
    high: f64,
    from: f64,
    to: f64,
    logarithmic: bool,
}

impl Scale {
    /// Values from `low` to `high`, drawn from one pixel to another.
    pub fn new((low, high): (f64, f64), (from, to): (f64, f64)) -> Self {
        let high = if high > low { high } else { low + 1.0 };
        Self {
            low,
            high,
            from,
            to,
            logarithmic: false,
        }
    }

    /// Positive values from `low` to `high`, equal ratios equally far apart.
    pub fn logarithmic((low, high): (f64, f64), pixels: (f64, f64)) -> Self {
        let low = low.max(f64::MIN_POSITIVE);
        let ends = (low.log10(), high.max(low).log10());
        Self {
            logarithmic: true,
            ..Self::new(ends, pixels)
        }
    }

    /// The pixel of a value; values beyond the ends are drawn at them.
    pub fn at(self, value: f64) -> f64 {
        let value = if self.logarithmic {
            value.max(f64::MIN_POSITIVE).log10()
        } else {
            value
        };
        let share = ((value - self.low) / (self.high - self.low)).clamp(0.0, 1.0);
        self.from + share * (self.to - self.from)
    }

    /// About `count` round values within the scale.
    pub fn ticks(self, count: usize) -> Vec<f64> {
        if self.logarithmic {
            return self.powers(count);
        }
        let step = round_step((self.high - self.low) / count.max(1) as f64);
        let first = (self.low / step).ceil() as i64;
        let last = (self.high / step + 1e-9).floor() as i64;
        (first..=last).map(|tick| tick as f64 * step).collect()
    }
}

impl Scale {
    /// Powers of ten within a logarithmic scale, and 2 and 5 times them where there is room.
    fn powers(self, count: usize) -> Vec<f64> {
        let decades = self.high - self.low;
        let digits: &[f64] = match decades * 3.0 {
            needed if needed <= count as f64 => &[1.0, 2.0, 5.0],
            _ => &[1.0],
        };
        let every = (decades / count.max(1) as f64).ceil().max(1.0) as usize;
        let powers = (self.low.floor() as i32..=self.high.ceil() as i32).step_by(every);
        let all =
            powers.flat_map(|power| digits.iter().map(move |digit| digit * 10_f64.powi(power)));
        all.filter(|value| (self.low..=self.high).contains(&value.log10()))
            .collect()
    }

    /// How many labels of ticks have room beside each other.
    fn room_for_labels(self) -> usize {
        (((self.to - self.from).abs() / 80.0) as usize).clamp(3, 9)
    }
}

/// The next of 1, 2 and 5 times a power of ten.
fn round_step(raw: f64) -> f64 {
    let power = 10_f64.powf(raw.max(1e-12).log10().floor());
    let scaled = raw / power;
    let digit = [1.0, 2.0, 5.0]
        .into_iter()
        .find(|digit| scaled <= digit + 1e-9)
        .unwrap_or(10.0);
    digit * power
}

/// A number as short as it can be read.
pub fn short(value: f64) -> String {
    let size = value.abs();
    let (number, suffix) = match size {
        _ if size >= 1e6 => (value / 1e6, "M"),
        _ if size >= 1e4 => (value / 1e3, "k"),
        _ => (value, ""),
    };
    let digits = match number.abs() {
        size if size >= 100.0 || size.fract() == 0.0 => 0,
        size if size >= 0.1 => 2,
        // two digits that say something: 0.0012
        size => (1.0 - size.log10().floor()) as usize,
    };
    let text = format!("{number:.digits$}");
    let text = if digits > 0 {
        text.trim_end_matches('0').trim_end_matches('.')
    } else {
        &text
    };
    format!("{text}{suffix}")
}

/// The horizontal axis with its ticks, lines and title.
pub fn x_axis(canvas: Canvas, scale: Scale, title: &str) -> String {
    let bottom = canvas.bottom();
    let mut out = String::new();
    for tick in scale.ticks(scale.room_for_labels()) {
        let x = scale.at(tick);
        let text = short(tick);
        put(
            &mut out,
            format_args!(
                "<line class=\"grid\" x1=\"{x:.1}\" y1=\"{TOP}\" x2=\"{x:.1}\" y2=\"{bottom}\"/>\
             <text class=\"tick\" x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{text}</text>",
                bottom + 14.0
            ),
        );
    }
    let middle = f64::midpoint(scale.from, scale.to);
    put(
        &mut out,
        format_args!(
            "<text class=\"axis\" x=\"{middle:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
            bottom + 29.0,
            super::escaped(title)
        ),
    );
    out
}

/// The vertical axis with its ticks, lines and title.
pub fn y_axis(canvas: Canvas, scale: Scale, title: &str) -> String {
    let right = canvas.right();
    let mut out = String::new();
    for tick in scale.ticks(5) {
        let y = scale.at(tick);
        let text = short(tick);
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
    let middle = f64::midpoint(TOP, canvas.bottom());
    put(
        &mut out,
        format_args!(
            "<text class=\"axis\" transform=\"translate(13 {middle:.1}) rotate(-90)\" \
         text-anchor=\"middle\">{}</text>",
            super::escaped(title)
        ),
    );
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_within() {
        let ticks = |low, high| Scale::new((low, high), (0.0, 100.0)).ticks(5);
        assert_eq!(ticks(0.0, 10.0), [0.0, 2.0, 4.0, 6.0, 8.0, 10.0]);
        assert_eq!(ticks(0.0, 0.9).len(), 5);
        assert_eq!(ticks(3.0, 3.0).first(), Some(&3.0));
        assert_eq!(ticks(17.0, 61.0), [20.0, 30.0, 40.0, 50.0, 60.0]);
    }

    #[test]
    fn ticks_of_a_logarithmic_scale_are_powers_of_ten() {
        let ticks = |low, high, count| Scale::logarithmic((low, high), (0.0, 100.0)).ticks(count);
        assert_eq!(ticks(0.5, 20.0, 6), [0.5, 1.0, 2.0, 5.0, 10.0, 20.0]);
        assert_eq!(ticks(2.0, 3000.0, 4), [10.0, 100.0, 1000.0]);
        assert_eq!(ticks(1.0, 1e8, 4).len(), 5);
        let scale = Scale::logarithmic((1.0, 1e6), (100.0, 0.0));
        assert!((scale.at(1e3) - 50.0).abs() < 1e-9);
    }

    #[test]
    fn numbers_are_short() {
        for (value, text) in [
            (0.0, "0"),
            (0.25, "0.25"),
            (0.001, "0.001"),
            (0.0123, "0.012"),
            (12.5, "12.5"),
            (150.0, "150"),
            (15_000.0, "15k"),
            (2.5e6, "2.5M"),
        ] {
            assert_eq!(short(value), text);
        }
    }

    #[test]
    fn values_are_placed_between_the_ends() {
        let scale = Scale::new((10.0, 20.0), (100.0, 0.0));
        for (value, pixel) in [(10.0, 100.0), (15.0, 50.0), (99.0, 0.0)] {
            assert!((scale.at(value) - pixel).abs() < 1e-9);
        }
    }
}
