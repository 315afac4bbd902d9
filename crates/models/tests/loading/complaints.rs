use checkpoint::Encoding;
use models::LoadOptions;
use ops::{ReferenceDevice, WeightFormat};
use tensor::DType;

use crate::devices::narrow;
use crate::weights::Weights;

const OPTIONS: LoadOptions = LoadOptions {
    max_positions: 16,
    fold: false,
};

/// What loading says after this damage.
fn complaint(name: &str, damage: impl FnOnce(&mut Weights)) -> String {
    let (spec, mut weights) = Weights::of(name);
    damage(&mut weights);
    let device = ReferenceDevice::default();
    match models::load(spec, &weights, &device, OPTIONS, &mut |_, _| ()) {
        Ok(_) => "none".to_owned(),
        Err(error) => error.to_string(),
    }
}

#[test]
fn a_checkpoint_that_does_not_fit_its_model_is_refused_by_name() {
    let norm = "model.layers.1.input_layernorm.weight";
    let query = "model.layers.0.self_attn.q_proj.weight";
    let rename = |from: &'static str, to: &'static str| {
        move |weights: &mut Weights| {
            let place = weights.place(from);
            to.clone_into(&mut weights.infos[place].name);
        }
    };
    assert_eq!(complaint("llama-gqa2", |_| ()), "none");
    assert_eq!(
        complaint(
            "llama-gqa2",
            rename(norm, "model.layers.7.input_layernorm.weight")
        ),
        "the checkpoint has no tensor named model.layers.1.input_layernorm.weight"
    );
    let extra = |weights: &mut Weights| {
        for name in ["model.layers.0.self_attn.sinks", "model.vision.weight"] {
            let mut info = weights.infos[0].clone();
            name.clone_into(&mut info.name);
            weights.infos.push(info);
            weights.bytes.push(weights.bytes[0].clone());
        }
    };
    assert_eq!(
        complaint("llama-gqa2", extra),
        "the checkpoint has 2 tensors that the model does not use, the first is model.layers.0.self_attn.sinks"
    );
    let transposed = |weights: &mut Weights| {
        let place = weights.place("model.layers.1.mlp.down_proj.weight");
        weights.infos[place].shape.reverse();
    };
    assert_eq!(
        complaint("llama-gqa2", transposed),
        "tensor model.layers.1.mlp.down_proj.weight has shape [48, 32], the model's dimensions ask for [32, 48]"
    );
    let integers = move |weights: &mut Weights| {
        let place = weights.place(query);
        weights.infos[place].encoding = Encoding::Plain(DType::U16);
    };
    assert_eq!(
        complaint("llama-gqa2", integers),
        "tensor model.layers.0.self_attn.q_proj.weight: these are not weights"
    );
}

#[test]
fn tensors_that_every_loader_ignores_are_no_reason_to_refuse() {
    let extra = |name: &'static str| {
        move |weights: &mut Weights| {
            let mut info = weights.infos[0].clone();
            name.clone_into(&mut info.name);
            weights.infos.push(info);
            weights.bytes.push(weights.bytes[0].clone());
        }
    };
    assert_eq!(complaint("llama-tied", extra("lm_head.weight")), "none");
    let angles = "model.layers.0.self_attn.rotary_emb.inv_freq";
    assert_eq!(complaint("llama-gqa2", extra(angles)), "none");
}

#[test]
fn a_weight_or_scale_that_is_not_finite_is_refused_wherever_it_is() {
    for (model, tensor, byte, element) in [
        (
            "llama-gqa2",
            "model.layers.1.mlp.up_proj.weight",
            2 * (3 * 32 + 5),
            3 * 32 + 5,
        ),
        ("llama-gqa2", "model.norm.weight", 2 * 7, 7),
        (
            "qwen2-tied",
            "model.layers.0.self_attn.k_proj.bias",
            4 * 3 + 2,
            3,
        ),
        (
            "gguf-llama-q4_1/model.gguf",
            "model.layers.0.self_attn.q_proj.weight",
            3 * 20,
            3 * 32,
        ),
        (
            "gguf-llama-q4_1/model.gguf",
            "model.embed_tokens.weight",
            5 * 34,
            5 * 32,
        ),
        (
            "gguf-qwen2-k/model.gguf",
            "model.layers.1.mlp.down_proj.weight",
            176 + 2,
            256,
        ),
    ] {
        let damage = |weights: &mut Weights| {
            let place = weights.place(tensor);
            weights.bytes[place][byte..byte + 2].copy_from_slice(&0x7fc0u16.to_le_bytes());
        };
        assert_eq!(
            complaint(model, damage),
            format!(
                "tensor {tensor} has a weight or scale that is not finite, at element {element}"
            )
        );
    }
}

#[test]
fn progress_rises_to_the_whole_checkpoint() {
    for name in [
        "llama-sharded",
        "llama-tied",
        "gguf-llama3-mixed/model.gguf",
    ] {
        let (spec, weights) = Weights::of(name);
        let device = ReferenceDevice::default();
        let mut seen = vec![(0, 0)];
        models::load(spec, &weights, &device, OPTIONS, &mut |done, total| {
            seen.push((done, total));
        })
        .expect("a good checkpoint");
        assert!(
            seen.windows(2).all(|pair| pair[0].0 <= pair[1].0),
            "{seen:?}"
        );
        let total: usize = weights.bytes.iter().map(Vec::len).sum();
        assert_eq!(seen.last(), Some(&(total, total)));
    }
}

#[test]
fn a_model_that_a_device_has_no_kernels_for_is_refused_before_a_weight_is_read() {
    let (spec, weights) = Weights::of("llama-gqa2");
    let mut device = narrow(&[WeightFormat::Plain(DType::F32)]);
    device.0.largest = spec.sizes();
    let load = |device: &_| {
        let loaded = models::load(spec.clone(), &weights, device, OPTIONS, &mut |_, _| ());
        loaded.map_err(|error| error.to_string()).map(drop)
    };
    assert_eq!(load(&device), Ok(()));
    device.0.loaded.borrow_mut().clear();
    (device.0.largest.heads.dim, device.0.largest.hidden) = (7, 31);
    let complaint = load(&device).expect_err("heads are too wide");
    let expected = "has no kernels for a model with head size 8, where 7 is the most; hidden size 32, where 31 is the most";
    assert!(complaint.ends_with(expected), "{complaint}");
    assert!(device.0.loaded.borrow().is_empty());
}
