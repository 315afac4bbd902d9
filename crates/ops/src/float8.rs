//! Floats of eight bits as weights have them: codes, and rows of codes with a scale.

pub use tensor::float8::{LARGEST, decode, encode, is_nan};

/// Writes a row as codes times one scale; gives the scale, with which the largest element becomes the largest number.
pub fn quantise_row(values: &[f32], codes: &mut [u8]) -> f32 {
    let largest = values.iter().fold(0f32, |most, v| most.max(v.abs()));
    // A row of tiny numbers: their quotient by the largest code would lose all its bits.
    let scale = if largest < f32::MIN_POSITIVE * LARGEST {
        1.0
    } else {
        largest / LARGEST
    };
    let inverse = 1.0 / scale;
    for (code, value) in codes.iter_mut().zip(values) {
        *code = encode(value * inverse);
    }
    scale
}

#[cfg(test)]
mod tests {
    #![expect(clippy::float_cmp, reason = "codes stand for exact numbers")]

    use super::*;

    #[test]
    fn a_row_keeps_its_largest_element() {
        let mut codes = [0; 4];
        let scale = quantise_row(&[0.5, -3.0, 1e-9, 2.0], &mut codes);
        assert_eq!(decode(codes[1]) * scale, -3.0);
        assert_eq!(codes[2], 0);
        assert_eq!(quantise_row(&[0.0; 4], &mut codes), 1.0);
        assert_eq!(codes, [0; 4]);
    }
}
