//! A model's files, understood but not loaded.

use std::path::Path;

use anyhow::{Context as _, bail};
use checkpoint::{Checkpoint, Encoding, WeightSource};
use models::{DummyWeights, Inventory, ModelSpec, Quantisation};
use ops::Device;
use tensor::DType;

use crate::bus_error;

/// What is known about a model before its weights are loaded.
pub(crate) struct Opened {
    /// Its dimensions.
    pub(crate) spec: ModelSpec,
    /// Its weights.
    pub(crate) weights: Weights,
    /// Whether some of its projections are stored in more than eight bits a number: only those can become narrower.
    pub(crate) stored_wide: bool,
}

/// Where weights come from.
pub(crate) enum Weights {
    /// From files.
    Stored(Checkpoint),
    /// From nowhere: random ones of the right shapes.
    Dummy(DummyWeights),
}

impl Opened {
    /// Opens a file or folder in the way that `--load-format` and `--quantization` say. With `dummy`, a config.json is
    /// enough.
    pub(crate) fn open(
        path: &Path,
        format: &str,
        quantization: Option<&str>,
    ) -> anyhow::Result<Self> {
        bus_error::name(path);
        let quantised = |mut spec: ModelSpec, wide: bool| {
            let as_stored = spec.quantisation == Quantisation::AsStored;
            if quantization == Some("fp8") && as_stored && wide {
                spec.quantisation = Quantisation::OnlineFloat8;
            }
            spec
        };
        if format == "dummy" {
            let spec = quantised(describe(path)?, true);
            return Ok(Self {
                weights: Weights::Dummy(DummyWeights::new(&spec)),
                spec,
                stored_wide: true,
            });
        }
        let opened = models::open(path)
            .with_context(|| format!("cannot open the model at {}", path.display()))?;
        let found = match &opened.checkpoint {
            Checkpoint::Gguf(_) => "gguf",
            Checkpoint::Safetensors(_) => "safetensors",
        };
        if format != "auto" && format != found {
            bail!(
                "{} holds {found} weights, --load-format is {format}",
                path.display()
            );
        }
        let wide = has_wide_projections(opened.checkpoint.weights());
        Ok(Self {
            spec: quantised(opened.spec, wide),
            weights: Weights::Stored(opened.checkpoint),
            stored_wide: wide,
        })
    }

    /// The weights, wherever they come from.
    pub(crate) fn source(&self) -> &dyn WeightSource {
        match &self.weights {
            Weights::Stored(checkpoint) => checkpoint.weights(),
            Weights::Dummy(weights) => weights,
        }
    }

    /// The files, when there are any.
    pub(crate) fn checkpoint(&self) -> Option<&Checkpoint> {
        match &self.weights {
            Weights::Stored(checkpoint) => Some(checkpoint),
            Weights::Dummy(_) => None,
        }
    }

    /// What the weights are and what they will take.
    pub(crate) fn inventory(&self, device: &dyn Device) -> Inventory {
        Inventory::of(self.source(), &self.spec.quantisation, device)
    }
}

/// Whether there is anything that is not quantised already: nothing is quantised again.
fn has_wide_projections(source: &dyn WeightSource) -> bool {
    source.tensors().iter().any(|tensor| {
        let wide = matches!(
            tensor.encoding,
            Encoding::Plain(DType::F32 | DType::F16 | DType::BF16)
        );
        wide && tensor.name.ends_with("_proj.weight")
    })
}

/// The dimensions alone: of a config.json, of the folder it lies in, or of a GGUF file.
fn describe(path: &Path) -> anyhow::Result<ModelSpec> {
    let cannot = || format!("cannot read a description of a model at {}", path.display());
    if path.extension().is_some_and(|end| end == "json") {
        let json = std::fs::read(path).with_context(cannot)?;
        return models::spec_from_config(&json).with_context(cannot);
    }
    if path.join("config.json").is_file() {
        return models::read_spec(path).with_context(cannot);
    }
    Ok(models::open(path).with_context(cannot)?.spec)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_that_are_quantised_already_are_not_said_to_become_fp8() {
        let goldens = Path::new(env!("CARGO_MANIFEST_DIR")).join("../models/tests/goldens");
        for (name, expected) in [
            ("gguf-llama-q4_1/model.gguf", Quantisation::AsStored),
            ("gguf-qwen2-k/model.gguf", Quantisation::AsStored),
            ("gguf-llama3-mixed/model.gguf", Quantisation::OnlineFloat8),
            ("llama-gqa2", Quantisation::OnlineFloat8),
        ] {
            let opened = Opened::open(&goldens.join(name), "auto", Some("fp8")).expect(name);
            assert_eq!(opened.spec.quantisation, expected, "{name}");
        }
    }
}
