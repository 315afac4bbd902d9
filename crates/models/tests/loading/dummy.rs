use models::{DummyWeights, LoadOptions};
use ops::ReferenceDevice;

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
        let options = LoadOptions { max_positions: 16 };
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
