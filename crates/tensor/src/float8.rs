//! Floats of eight bits, e4m3: one bit of sign, four of exponent, three of mantissa; no infinities, two codes for what is
//! not a number.

/// The largest number.
pub const LARGEST: f32 = 448.0;

/// Where codes below stand for multiples of the smallest number, 2⁻⁹.
const SMALLEST_NORMAL: f32 = 1.0 / 64.0;
/// Added to a number below [`SMALLEST_NORMAL`], leaves its multiple of 2⁻⁹ in the lowest bits.
const ROUND_TO_SMALLEST: f32 = 16384.0;

/// True for the two codes that stand for no number.
pub const fn is_nan(code: u8) -> bool {
    code & 0x7f == 0x7f
}

/// The number that a code stands for.
pub const fn decode(code: u8) -> f32 {
    if is_nan(code) {
        return f32::NAN;
    }
    let sign = ((code & 0x80) as u32) << 24;
    // The bits of a float with a smaller exponent; numbers below the smallest normal stay right.
    let magnitude = ((code & 0x7f) as u32) << 20;
    let down_by_120 = f32::from_bits(sign | magnitude);
    down_by_120 * f32::from_bits((127 + 120) << 23)
}

/// The code of the nearest number, ties to even; what is too large becomes the largest, and what is no number stays none.
pub fn encode(value: f32) -> u8 {
    let sign = (value.to_bits() >> 24) as u8 & 0x80;
    if value.is_nan() {
        return sign | 0x7f;
    }
    let magnitude = value.abs().min(LARGEST);
    let code = if magnitude < SMALLEST_NORMAL {
        (magnitude + ROUND_TO_SMALLEST).to_bits() - ROUND_TO_SMALLEST.to_bits()
    } else {
        let bits = magnitude.to_bits();
        let rounded = bits + 0x7_ffff + (bits >> 20 & 1);
        (rounded >> 20) - (120 << 3)
    };
    sign | code as u8
}

#[cfg(test)]
mod tests {
    #![expect(clippy::float_cmp, reason = "codes stand for exact numbers")]

    use super::*;

    #[test]
    fn codes_stand_for_the_numbers_of_the_standard() {
        for (code, value) in [
            (0x00, 0.0),
            (0x01, 1.0 / 512.0),
            (0x07, 7.0 / 512.0),
            (0x08, 1.0 / 64.0),
            (0x38, 1.0),
            (0x3c, 1.5),
            (0x7e, 448.0),
            (0xb9, -1.125),
            (0xfe, -448.0),
        ] {
            assert_eq!(decode(code), value, "{code:#x}");
        }
        assert!(decode(0x7f).is_nan() && decode(0xff).is_nan());
    }

    #[test]
    fn every_number_becomes_the_nearest_code_and_ties_become_even() {
        let codes: Vec<u8> = (0..0x7f).collect();
        for pair in codes.windows(2) {
            let (low, high) = (decode(pair[0]), decode(pair[1]));
            let middle = f32::midpoint(low, high);
            assert_eq!(encode(low), pair[0]);
            assert_eq!(encode(-high), pair[1] | 0x80);
            assert_eq!(encode(middle.next_down()), pair[0], "below {middle}");
            assert_eq!(encode(middle.next_up()), pair[1], "above {middle}");
            assert_eq!(encode(middle), pair[0] + pair[0] % 2, "at {middle}");
        }
        assert_eq!(encode(1e9), 0x7e);
        assert_eq!(encode(f32::NEG_INFINITY), 0xfe);
        assert!(is_nan(encode(f32::NAN)) && is_nan(encode(-f32::NAN)));
    }
}
