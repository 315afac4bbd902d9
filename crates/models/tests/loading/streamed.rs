use std::collections::HashSet;
use std::time::{Duration, Instant};

use checkpoint::{BlockFormat, Encoding};
use half::bf16;
use models::{LoadOptions, ModelSpec, Quantisation};
use ops::WeightFormat;
use tensor::DType;

use crate::devices::{Narrow, narrow, narrow_as_gpus};
use crate::weights::{Weights, golden};

const OPTIONS: LoadOptions = LoadOptions {
    max_positions: 16,
    fold: false,
};

/// All golden models, as [`Weights::of`] names them.
fn every_model() -> Vec<String> {
    let folders = golden("").read_dir().expect("goldens");
    let names = folders.map(|entry| entry.expect("an entry").file_name().into_string());
    let names = names.map(|name| name.expect("a plain name"));
    names
        .map(|name| {
            if name.starts_with("gguf-") {
                format!("{name}/model.gguf")
            } else {
                name
            }
        })
        .collect()
}

fn load(spec: &ModelSpec, weights: &Weights, device: &Narrow) -> Result<Vec<f32>, String> {
    match models::load(spec.clone(), weights, device, OPTIONS, &mut |_, _| ()) {
        Ok(_) => Ok(device.loaded.take()),
        Err(error) => Err(error.to_string()),
    }
}

#[test]
fn weights_that_come_in_pieces_are_the_same_as_whole_ones() {
    for name in every_model() {
        let (mut spec, weights) = Weights::of(&name);
        for quantisation in [None, Some(Quantisation::OnlineFloat8)] {
            match quantisation {
                Some(_) if spec.quantisation != Quantisation::AsStored => continue,
                Some(online) => spec.quantisation = online,
                None => {}
            }
            let expected = load(&spec, &weights, &narrow_as_gpus(None)).expect(&name);
            for rows in [1, 7, 1 << 20] {
                let pieces = load(&spec, &weights, &narrow_as_gpus(Some(rows)));
                assert!(
                    Ok(&expected) == pieces.as_ref(),
                    "{name}, {rows} rows a piece"
                );
            }
        }
    }
}

#[test]
fn every_format_of_gguf_becomes_bf16_where_a_device_takes_nothing_else() {
    let mut formats = HashSet::new();
    for name in every_model()
        .iter()
        .filter(|name| name.starts_with("gguf-"))
    {
        let (spec, weights) = Weights::of(name);
        formats.extend(weights.infos.iter().map(|tensor| tensor.encoding));
        let exact = [WeightFormat::Plain(DType::F32)];
        let exact = load(&spec, &weights, &narrow(&exact)).expect(name);
        let rounded: Vec<f32> = exact
            .into_iter()
            .map(|number| bf16::from_f32(number).to_f32())
            .collect();
        let taken = load(&spec, &weights, &narrow_as_gpus(Some(5)));
        assert!(taken.as_ref() == Ok(&rounded), "{name}");
    }
    for format in BlockFormat::ALL {
        let seen = formats.contains(&Encoding::Block(format));
        assert!(seen, "no golden has {}", format.name());
    }
}

#[test]
fn a_weight_that_is_not_finite_is_named_where_weights_come_in_pieces() {
    for (model, tensor, byte, element) in [
        (
            "llama-gqa2",
            "model.layers.1.mlp.up_proj.weight",
            2 * (3 * 32 + 5),
            3 * 32 + 5,
        ),
        (
            "gguf-llama-q4_1/model.gguf",
            "model.layers.0.self_attn.q_proj.weight",
            3 * 20,
            3 * 32,
        ),
    ] {
        let (spec, mut weights) = Weights::of(model);
        let place = weights.place(tensor);
        weights.bytes[place][byte..byte + 2].copy_from_slice(&0x7fc0u16.to_le_bytes());
        assert_eq!(
            load(&spec, &weights, &narrow_as_gpus(Some(2))),
            Err(format!(
                "tensor {tensor} has a weight or scale that is not finite, at element {element}"
            ))
        );
    }
}

#[test]
fn what_a_device_does_after_the_last_row_is_not_counted_as_reading() {
    let (spec, weights) = Weights::of("fp8-qwen2-channel");
    for (piece, in_pieces) in [(None, false), (Some(7), true)] {
        let device = narrow_as_gpus(piece);
        let began = Instant::now();
        let model = models::load(spec.clone(), &weights, &device, OPTIONS, &mut |_, _| ());
        let (set_up, whole) = (model.expect("a model").set_up_time(), began.elapsed());
        let (taking, going_on) = *device.busy.borrow();
        assert_eq!(going_on > Duration::ZERO, in_pieces);
        assert!(going_on <= set_up, "{going_on:?} {set_up:?}");
        assert!(set_up + taking <= whole, "{set_up:?} {taking:?} {whole:?}");
    }
}
