use checkpoint::Encoding;
use models::{DummyWeights, Inventory, LoadOptions, ModelSpec, Quantisation};
use ops::{ReferenceDevice, WeightFormat};
use tensor::DType;

use crate::devices::{Narrow, narrow};
use crate::weights::Weights;

const OPTIONS: LoadOptions = LoadOptions {
    max_positions: 16,
    fold: false,
};
const PLAIN: [WeightFormat; 3] = [
    WeightFormat::Plain(DType::F32),
    WeightFormat::Plain(DType::F16),
    WeightFormat::Plain(DType::BF16),
];
const A_ROW: WeightFormat = WeightFormat::Float8 { group: 0 };

fn load(spec: ModelSpec, weights: &Weights, device: &Narrow) -> Result<(), String> {
    match models::load(spec, weights, device, OPTIONS, &mut |_, _| ()) {
        Ok(_) => Ok(()),
        Err(error) => Err(error.to_string()),
    }
}

fn with(format: WeightFormat) -> Narrow {
    narrow(&[&PLAIN[..], &[format]].concat())
}

#[test]
fn eight_bit_floats_keep_their_values_on_devices_that_do_not_take_them() {
    for (name, format) in [
        ("fp8-qwen3-blocks", WeightFormat::Float8 { group: 128 }),
        ("fp8-llama-odd-blocks", WeightFormat::Float8 { group: 32 }),
        ("fp8-llama-tensor", A_ROW),
        ("fp8-qwen2-channel", A_ROW),
    ] {
        let (spec, weights) = Weights::of(name);
        let (taken, widened) = (with(format), narrow(&PLAIN[..1]));
        load(spec.clone(), &weights, &taken).expect(name);
        load(spec, &weights, &widened).expect(name);
        assert!(taken.loaded == widened.loaded, "{name}");
    }
}

#[test]
fn wider_numbers_become_eight_bit_floats_on_request_but_not_those_of_tables_and_heads() {
    let (mut spec, weights) = Weights::of("llama-gqa2");
    let (plain, rounded) = (with(A_ROW), with(A_ROW));
    load(spec.clone(), &weights, &plain).expect("as stored");
    spec.quantisation = Quantisation::OnlineFloat8;
    load(spec.clone(), &weights, &rounded).expect("rounded");
    let (plain, rounded) = (plain.loaded.take(), rounded.loaded.take());
    let (table, head) = (257 * 32, plain.len() - 257 * 32);
    assert!(plain[..table] == rounded[..table] && plain[head..] == rounded[head..]);
    let (mut wrong, mut size) = (0f64, 0f64);
    for (row, other) in plain[table..head]
        .chunks(16)
        .zip(rounded[table..head].chunks(16))
    {
        for (a, b) in row.iter().zip(other) {
            wrong += f64::from(a - b).powi(2);
            size += f64::from(*a).powi(2);
        }
    }
    let error = (wrong / size).sqrt();
    assert!(error > 1e-3 && error < 0.03, "{error}");
    let told = Inventory::of(&weights, &spec.quantisation, &with(A_ROW));
    let rounded = told
        .device_formats
        .iter()
        .find(|(name, _)| name.starts_with("8-bit"));
    let stored = Inventory::of(&weights, &Quantisation::AsStored, &with(A_ROW));
    let (_, projections) = rounded.expect("projections");
    assert_eq!(told.device_bytes + projections, stored.device_bytes);
}

#[test]
fn scales_that_are_missing_or_do_not_fit_are_named() {
    let module = "model.layers.1.self_attn.o_proj";
    let complaint = |damage: &dyn Fn(&mut Weights, usize)| {
        let (spec, mut weights) = Weights::of("fp8-qwen3-blocks");
        let place = weights.place(&format!("{module}.weight_scale_inv"));
        damage(&mut weights, place);
        load(spec, &weights, &with(WeightFormat::Float8 { group: 128 })).expect_err("damaged")
    };
    assert_eq!(
        complaint(&|weights, place| "other".clone_into(&mut weights.infos[place].name)),
        format!("tensor {module}.weight: no scales cover it")
    );
    assert_eq!(
        complaint(&|weights, place| weights.infos[place].shape = vec![2]),
        format!("tensor {module}.weight: no scales cover it")
    );
    assert_eq!(
        complaint(&|weights, place| weights.bytes[place][..2].copy_from_slice(&[0xc0, 0x7f])),
        format!(
            "tensor {module}.weight_scale_inv has a weight or scale that is not finite, at element 0"
        )
    );
    assert_eq!(
        complaint(&|weights, _| {
            let place = weights.place(&format!("{module}.weight"));
            weights.bytes[place][130] = 0xff;
        }),
        format!("tensor {module}.weight has a weight or scale that is not finite, at element 130")
    );
}

#[test]
fn made_up_weights_have_the_names_and_types_of_the_files() {
    for name in ["fp8-qwen3-blocks", "fp8-llama-odd-blocks"] {
        let (spec, real) = Weights::of(name);
        let dummy = DummyWeights::new(&spec);
        let described = |infos: &[checkpoint::TensorInfo]| {
            let code =
                |info: &checkpoint::TensorInfo| info.encoding == Encoding::Plain(DType::F8E4M3);
            let mut list: Vec<_> = infos
                .iter()
                .map(|info| (info.name.clone(), info.shape.clone(), code(info)))
                .collect();
            list.sort_unstable();
            list
        };
        let infos = checkpoint::WeightSource::tensors(&dummy);
        assert_eq!(described(infos), described(&real.infos), "{name}");
        let device = ReferenceDevice::default();
        models::load(spec, &dummy, &device, OPTIONS, &mut |_, _| ()).expect("made to fit");
    }
}
