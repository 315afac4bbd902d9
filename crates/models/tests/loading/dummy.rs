use std::time::{Duration, Instant};

use models::{DummyWeights, LoadOptions};
use ops::ReferenceDevice;

use crate::devices::narrow_as_gpus;
use crate::weights::Weights;

#[test]
fn weights_can_be_made_up_from_the_spec_alone() {
    for name in ["llama-gqa4-biases", "qwen2-gqa7", "qwen3-tied"] {
        let (spec, real) = Weights::of(name);
        let dummy = DummyWeights::new(&spec);
        let mut expected: Vec<_> = real
            .infos
            .iter()
            .map(|info| (&info.name, &info.shape))
            .collect();
        let infos = checkpoint::WeightSource::tensors(&dummy);
        let mut found: Vec<_> = infos.iter().map(|info| (&info.name, &info.shape)).collect();
        expected.sort_unstable();
        found.sort_unstable();
        assert_eq!(found, expected);
        let options = LoadOptions {
            max_positions: 16,
            fold: false,
        };
        models::load(
            spec,
            &dummy,
            &ReferenceDevice::default(),
            options,
            &mut |_, _| (),
        )
        .expect("made to fit");
    }
}

#[test]
fn what_a_device_does_with_a_weight_it_made_up_is_not_counted_as_loading() {
    let (spec, _) = Weights::of("llama-gqa2");
    let dummy = DummyWeights::new(&spec);
    for invents in [true, false] {
        let mut device = narrow_as_gpus(None);
        device.0.invents = invents;
        let options = LoadOptions {
            max_positions: 16,
            fold: false,
        };
        let began = Instant::now();
        let model = models::load(spec.clone(), &dummy, &device, options, &mut |_, _| ());
        let (set_up, whole) = (model.expect("made to fit").set_up_time(), began.elapsed());
        let (taking, going_on) = *device.busy.borrow();
        assert_eq!(going_on > Duration::ZERO, invents);
        assert!(going_on <= set_up, "{going_on:?} {set_up:?}");
        assert!(set_up + taking <= whole, "{set_up:?} {taking:?} {whole:?}");
    }
}
