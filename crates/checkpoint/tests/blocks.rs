//! Blocks are read as ggml defines them: random blocks and their values, written by `reference/make_block_goldens.py`.

use std::path::Path;

use checkpoint::gguf::blocks::{Groups, take_apart};
use checkpoint::safetensors::SafetensorsSource;
use checkpoint::{BlockFormat, Encoding, WeightSource, widen};
use tensor::DType;

fn golden() -> SafetensorsSource {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/goldens/blocks.safetensors");
    SafetensorsSource::open(&path).expect("the golden file")
}

fn values(golden: &SafetensorsSource, format: BlockFormat) -> Vec<f32> {
    let bytes = golden
        .bytes(&format!("{}.values", format.name()))
        .expect("present");
    let mut values = vec![0.0; bytes.len() / 4];
    widen(Encoding::Plain(DType::F32), bytes, &mut values).expect("plain numbers");
    values
}

#[test]
fn every_format_has_the_values_of_the_reference() {
    let golden = golden();
    for format in BlockFormat::ALL {
        let expected = values(&golden, format);
        let blocks = golden
            .bytes(&format!("{}.blocks", format.name()))
            .expect("present");
        assert!(expected.len() >= 4 * format.elements());
        let mut found = vec![f32::NAN; expected.len()];
        widen(Encoding::Block(format), blocks, &mut found).expect("whole blocks");
        assert_eq!(found, expected, "{}", format.name());
    }
}

#[test]
fn quants_stay_within_their_bits() {
    let golden = golden();
    for format in BlockFormat::ALL {
        let blocks = golden
            .bytes(&format!("{}.blocks", format.name()))
            .expect("present");
        let elements = blocks.len() / format.bytes() * format.elements();
        let mut quants = vec![0; elements];
        let mut scales = vec![0.0; elements / format.group()];
        let mut minimums = scales.clone();
        let groups = Groups {
            quants: &mut quants,
            scales: &mut scales,
            minimums: &mut minimums,
        };
        take_apart(format, blocks, groups);
        let most = (1u16 << format.bits()) - 1;
        assert_eq!(
            quants.iter().copied().max().map(u16::from),
            Some(most),
            "{}",
            format.name()
        );
    }
}

#[test]
fn lengths_that_do_not_fit_are_refused() {
    for (encoding, bytes, elements, message) in [
        (
            Encoding::Block(BlockFormat::Q4_1),
            20,
            31,
            "20 bytes of Q4_1 are not 31 elements",
        ),
        (
            Encoding::Block(BlockFormat::Q6_K),
            209,
            256,
            "209 bytes of Q6_K are not 256 elements",
        ),
        (
            Encoding::Plain(DType::BF16),
            3,
            1,
            "3 bytes of BF16 are not 1 elements",
        ),
        (
            Encoding::Plain(DType::I64),
            8,
            1,
            "I64 cannot be widened to F32 by itself",
        ),
    ] {
        let error = widen(encoding, &vec![0; bytes], &mut vec![0.0; elements]);
        assert_eq!(error.expect_err("does not fit").to_string(), message);
    }
}
