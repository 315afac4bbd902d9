//! A golden checkpoint copied into memory, to be damaged.

use std::path::{Path, PathBuf};

use checkpoint::{CheckpointError, TensorInfo, WeightSource};
use models::ModelSpec;

/// Tensors in memory.
pub(crate) struct Weights {
    pub(crate) infos: Vec<TensorInfo>,
    pub(crate) bytes: Vec<Vec<u8>>,
}

pub(crate) fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/goldens")
        .join(name)
}

impl Weights {
    /// The spec and the weights of a golden model.
    pub(crate) fn of(name: &str) -> (ModelSpec, Self) {
        let opened = models::open(&golden(name)).expect("a readable model");
        let source = opened.checkpoint.weights();
        let infos = source.tensors().to_vec();
        let bytes = infos
            .iter()
            .map(|info| source.bytes(&info.name).expect("listed").to_vec());
        let bytes = bytes.collect();
        (opened.spec, Self { infos, bytes })
    }

    pub(crate) fn place(&self, name: &str) -> usize {
        self.infos
            .iter()
            .position(|info| info.name == name)
            .expect("a tensor of this name")
    }
}

impl WeightSource for Weights {
    fn tensors(&self) -> &[TensorInfo] {
        &self.infos
    }

    fn find(&self, name: &str) -> Option<&TensorInfo> {
        self.infos.iter().find(|info| info.name == name)
    }

    fn bytes(&self, name: &str) -> Result<&[u8], CheckpointError> {
        let place = self.infos.iter().position(|info| info.name == name);
        let place = place.ok_or_else(|| CheckpointError::NoTensor {
            name: name.to_owned(),
        })?;
        Ok(&self.bytes[place])
    }
}
