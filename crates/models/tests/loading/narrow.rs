use models::{Inventory, LoadOptions};
use ops::{Device, ReferenceDevice, WeightFormat};
use tensor::DType;

use crate::devices::narrow;
use crate::weights::Weights;

const OPTIONS: LoadOptions = LoadOptions {
    max_positions: 16,
    fold: false,
};
const EVERY_MODEL: [&str; 4] = [
    "gguf-qwen2-k/model.gguf",
    "gguf-llama3-mixed/model.gguf",
    "llama-gqa2",
    "llama-gqa4-biases",
];

fn weight_bytes(name: &str, device: &dyn Device) -> Result<usize, String> {
    let (spec, weights) = Weights::of(name);
    match models::load(spec, &weights, device, OPTIONS, &mut |_, _| ()) {
        Ok(model) => Ok(model.weight_bytes()),
        Err(error) => Err(error.to_string()),
    }
}

fn loaded(name: &str, formats: &[WeightFormat]) -> Vec<f32> {
    let device = narrow(formats);
    weight_bytes(name, &device).expect("a format that the device takes");
    device.loaded.take()
}

#[test]
fn weights_keep_their_values_whatever_format_a_device_takes() {
    let plain = [DType::F32, DType::F16, DType::BF16].map(WeightFormat::Plain);
    let affine = |bits, group| WeightFormat::Affine { bits, group };
    let all = [&plain[..], &[affine(4, 32), affine(8, 32), affine(8, 16)]].concat();
    for name in EVERY_MODEL {
        let expected = loaded(name, &all);
        assert!(expected == loaded(name, &plain[..1]), "{name} as F32");
        assert!(
            expected == loaded(name, &[plain[0], affine(4, 32)]),
            "{name} as 4 bits and F32"
        );
    }
}

#[test]
fn a_device_is_told_at_load_which_products_add_a_bias() {
    for (name, qkv, others) in [
        ("qwen3-gqa8", false, false),
        ("qwen2-gqa7", true, false),
        ("llama-gqa4-biases", true, true),
    ] {
        let (spec, _) = Weights::of(name);
        let device = narrow(&[WeightFormat::Plain(DType::F32)]);
        weight_bytes(name, &device).expect("a format that the device takes");
        let heads = spec.heads;
        let mut each = Vec::new();
        each.extend(qkv.then_some(heads.query_width() + 2 * heads.kv_width()));
        each.extend(others.then_some(spec.hidden));
        if spec.biases.mlp {
            each.extend([2 * spec.feed_forward, spec.hidden]);
        }
        assert_eq!(
            device.biased.take(),
            each.repeat(spec.layers.len()),
            "{name}"
        );
    }
}

#[test]
fn weights_that_are_multiplied_are_folded_and_others_are_not() {
    for name in ["qwen3-gqa8", "qwen3-tied"] {
        let (spec, weights) = Weights::of(name);
        let device = narrow(&[WeightFormat::Plain(DType::F32)]);
        let options = LoadOptions {
            fold: true,
            ..OPTIONS
        };
        let model = models::load(spec.clone(), &weights, &device, options, &mut |_, _| ());
        let model = model.expect("a loadable model");
        let heads = spec.heads;
        let layer = [
            heads.query_width() + 2 * heads.kv_width(),
            spec.hidden,
            2 * spec.feed_forward,
            spec.hidden,
        ];
        // the head, or the table that is one: it is loaded first
        let mut expected = layer.repeat(spec.layers.len());
        let head = if spec.tied { 0 } else { expected.len() };
        expected.insert(head, spec.vocabulary);
        let folded = device.folded.take();
        assert_eq!(folded, expected, "{name}");
        assert_eq!(model.folded_bytes(), folded.iter().sum::<usize>(), "{name}");
        let inventory = Inventory::of(&weights, &spec.quantisation, &device);
        assert_eq!(inventory.folded_bytes, model.folded_bytes(), "{name}");
    }
    let device = narrow(&[WeightFormat::Plain(DType::F32)]);
    weight_bytes("qwen3-gqa8", &device).expect("a format that the device takes");
    assert!(device.folded.take().is_empty(), "nobody asked");
}

#[test]
fn a_device_that_takes_nothing_is_named() {
    let nothing = narrow(&[]);
    assert_eq!(
        weight_bytes("llama-gqa2", &nothing),
        Err("plain loops has no kernel for weights in BF16".to_owned())
    );
}

#[test]
fn an_inventory_tells_what_the_weights_are_and_will_take() {
    let (spec, weights) = Weights::of("gguf-qwen2-k/model.gguf");
    let everything = Inventory::of(&weights, &spec.quantisation, &ReferenceDevice::default());
    let elements: usize = everything
        .formats
        .iter()
        .map(|(_, _, elements)| elements)
        .sum();
    assert_eq!(elements, spec.parameters());
    assert_eq!(everything.quantisation(), "Q4_K");
    let tensors: Vec<_> = everything
        .formats
        .iter()
        .map(|(name, count, _)| (*name, *count))
        .collect();
    assert_eq!(
        tensors,
        [
            ("Q4_K", 8),
            ("Q5_K", 2),
            ("Q6_K", 3),
            ("Q5_1", 2),
            ("Q5_0", 1),
            ("F32", 11)
        ]
    );
    assert_eq!(
        everything.file_bytes,
        weights.bytes.iter().map(Vec::len).sum::<usize>()
    );
    let widened = Inventory::of(
        &weights,
        &spec.quantisation,
        &narrow(&[WeightFormat::Plain(DType::F32)]),
    );
    assert_eq!(widened.device_bytes, 4 * elements);
    assert!(everything.device_bytes < 2 * everything.file_bytes);
}
