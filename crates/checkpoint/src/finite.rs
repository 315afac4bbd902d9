//! Weights must be finite: one bad scale would turn every answer into noise long after loading.

use tensor::DType;

use crate::{BlockFormat, CheckpointError, Encoding, TensorInfo};

/// Fails when a plain weight, or the scale or minimum of a block, is infinite or not a number.
///
/// `bytes` are those of whole rows of `tensor`, beginning at its first element.
pub fn check_finite(tensor: &TensorInfo, bytes: &[u8]) -> Result<(), CheckpointError> {
    match first_not_finite(tensor.encoding, bytes) {
        None => Ok(()),
        Some(element) => Err(CheckpointError::NotFinite {
            name: tensor.name.clone(),
            element,
        }),
    }
}

/// The first plain weight that is not finite, or the first element of the first block whose scales are not.
pub fn first_not_finite(encoding: Encoding, bytes: &[u8]) -> Option<usize> {
    match encoding {
        Encoding::Plain(DType::F32) => first_bad(bytes.as_chunks::<4>().0, |four| {
            u32::from_le_bytes(*four) & 0x7f80_0000 == 0x7f80_0000
        }),
        Encoding::Plain(DType::F16) => first_bad(bytes.as_chunks::<2>().0, |two| bad_f16(*two)),
        Encoding::Plain(DType::BF16) => first_bad(bytes.as_chunks::<2>().0, |two| {
            u16::from_le_bytes(*two) & 0x7f80 == 0x7f80
        }),
        Encoding::Plain(DType::F8E4M3) => first_bad(bytes, |code| code & 0x7f == 0x7f),
        Encoding::Plain(_) => None,
        Encoding::Block(format) => first_bad_block(format, bytes),
    }
}

fn bad_f16(two: [u8; 2]) -> bool {
    u16::from_le_bytes(two) & 0x7c00 == 0x7c00
}

/// The first bad item. Runs are looked at without branching, so that good weights pass at memory speed.
fn first_bad<T>(items: &[T], bad: impl Fn(&T) -> bool) -> Option<usize> {
    const RUN: usize = 4096;
    items.chunks(RUN).enumerate().find_map(|(run, items)| {
        let any = items.iter().fold(false, |any, item| any | bad(item));
        if !any {
            return None;
        }
        items.iter().position(&bad).map(|at| run * RUN + at)
    })
}

fn first_bad_block(format: BlockFormat, bytes: &[u8]) -> Option<usize> {
    let scales: &[usize] = match format {
        BlockFormat::Q4_0 | BlockFormat::Q5_0 | BlockFormat::Q8_0 => &[0],
        BlockFormat::Q4_1 | BlockFormat::Q5_1 | BlockFormat::Q4_K | BlockFormat::Q5_K => &[0, 2],
        BlockFormat::Q6_K => &[208],
    };
    bytes
        .chunks_exact(format.bytes())
        .position(|block| scales.iter().any(|&at| bad_f16([block[at], block[at + 1]])))
        .map(|block| block * format.elements())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RowOrder;

    fn tensor(encoding: Encoding, elements: usize) -> TensorInfo {
        TensorInfo {
            name: "w".to_owned(),
            shape: vec![elements],
            encoding,
            row_order: RowOrder::Plain,
            file: 0,
            range: 0..0,
        }
    }

    fn bad_element(encoding: Encoding, elements: usize, bytes: &[u8]) -> Option<usize> {
        match check_finite(&tensor(encoding, elements), bytes) {
            Ok(()) => None,
            Err(CheckpointError::NotFinite { element, .. }) => Some(element),
            Err(other) => panic!("{other}"),
        }
    }

    #[test]
    fn the_first_plain_weight_that_is_not_finite_is_named() {
        let mut values = vec![1.0f32; 10_000];
        let bytes =
            |values: &[f32]| -> Vec<u8> { values.iter().flat_map(|v| v.to_le_bytes()).collect() };
        let encoding = Encoding::Plain(DType::F32);
        assert_eq!(bad_element(encoding, 10_000, &bytes(&values)), None);
        values[9_000] = f32::NEG_INFINITY;
        assert_eq!(bad_element(encoding, 10_000, &bytes(&values)), Some(9_000));
        values[17] = f32::NAN;
        assert_eq!(bad_element(encoding, 10_000, &bytes(&values)), Some(17));
        let halves = [0x3f80u16, 0x7f80, 0x7fff].map(u16::to_le_bytes).concat();
        assert_eq!(
            bad_element(Encoding::Plain(DType::BF16), 3, &halves),
            Some(1)
        );
        assert_eq!(
            bad_element(Encoding::Plain(DType::F16), 3, &halves),
            Some(1)
        );
    }

    #[test]
    fn eight_bit_floats_are_finite_but_for_two_codes() {
        let encoding = Encoding::Plain(DType::F8E4M3);
        assert_eq!(bad_element(encoding, 3, &[0x7e, 0xfe, 0x80]), None);
        assert_eq!(bad_element(encoding, 3, &[0x7e, 0xff, 0x7f]), Some(1));
    }

    #[test]
    fn every_scale_and_minimum_of_a_block_is_looked_at() {
        for format in BlockFormat::ALL {
            let encoding = Encoding::Block(format);
            let good = vec![0u8; 3 * format.bytes()];
            assert_eq!(bad_element(encoding, 3 * format.elements(), &good), None);
            let places: &[usize] = match format {
                BlockFormat::Q6_K => &[208],
                BlockFormat::Q4_0 | BlockFormat::Q5_0 | BlockFormat::Q8_0 => &[0],
                _ => &[0, 2],
            };
            for place in places {
                let mut bad = good.clone();
                bad[2 * format.bytes() + place + 1] = 0x7e;
                assert_eq!(
                    bad_element(encoding, 3 * format.elements(), &bad),
                    Some(2 * format.elements())
                );
            }
        }
    }
}
