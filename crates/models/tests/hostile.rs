//! A damaged GGUF file ends in an error or in a model, never in a panic, from its first byte to its weights.

use std::path::Path;

use checkpoint::gguf::GgufSource;
use models::LoadOptions;
use ops::ReferenceDevice;

/// Small, fast and the same everywhere.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(0x5851_f42d_4c95_7f2d)
            .wrapping_add(0x1405_7b7e_f767_814f);
        ((self.0 >> 33) as usize) % limit
    }
}

/// Overwrites up to eight bytes, most often in the header.
fn damage(whole: &[u8], random: &mut Random) -> Vec<u8> {
    let mut bytes = whole.to_vec();
    let header = bytes.len().min(4096);
    for _ in 0..=random.below(2) {
        let reach = if random.below(4) == 0 {
            bytes.len()
        } else {
            header
        };
        let (at, width) = (random.below(reach), 1 + random.below(8));
        let value = [0x00, 0x01, 0x20, 0x7f, 0x80, 0xff, random.below(256) as u8][random.below(7)];
        let end = (at + width).min(bytes.len());
        bytes[at..end].fill(value);
    }
    bytes
}

fn outcome(bytes: Vec<u8>) -> Result<(), String> {
    let source = GgufSource::from_bytes("damaged", bytes).map_err(|error| error.to_string())?;
    let spec =
        models::spec_from_gguf(&source.metadata(), &source).map_err(|error| error.to_string())?;
    let (device, options) = (
        ReferenceDevice::default(),
        LoadOptions {
            max_positions: 8,
            fold: false,
        },
    );
    models::load(spec, &source, &device, options, &mut |_, _| ())
        .map(drop)
        .map_err(|error| error.to_string())
}

#[test]
fn a_thousand_damaged_models_are_loaded_or_refused() {
    let path = "tests/goldens/gguf-llama-q4_1/model.gguf";
    let whole = std::fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).expect("readable");
    outcome(whole.clone()).expect("the undamaged model");
    let mut random = Random(3);
    let refused = (0..1000)
        .filter(|_| outcome(damage(&whole, &mut random)).is_err())
        .count();
    assert!((200..990).contains(&refused), "{refused} refused");
}
