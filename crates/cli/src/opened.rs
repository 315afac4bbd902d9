//! A model's files, understood but not loaded.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::Context as _;
use checkpoint::Checkpoint;
use models::ModelSpec;
use tensor::DType;

/// What is known about a model before its weights are loaded.
#[derive(Debug)]
pub(crate) struct Opened {
    /// Its dimensions.
    pub(crate) spec: ModelSpec,
    /// Its weights; a folder may have a config.json alone.
    pub(crate) checkpoint: Option<Checkpoint>,
}

/// How many tensors are written in one way, and what they take.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Share {
    /// Number of tensors.
    pub(crate) tensors: usize,
    /// Their bytes.
    pub(crate) bytes: usize,
}

impl Opened {
    /// Opens a file or folder; weights may be missing when only the description is wanted.
    pub(crate) fn open(path: &Path, weights: Weights) -> anyhow::Result<Self> {
        if weights == Weights::Optional && path.extension().is_some_and(|end| end == "json") {
            let json =
                std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
            let spec = models::spec_from_config(&json)?;
            return Ok(Self {
                spec,
                checkpoint: None,
            });
        }
        let described = path.join("config.json").is_file();
        match models::open(path) {
            Ok(opened) => Ok(Self {
                spec: opened.spec,
                checkpoint: Some(opened.checkpoint),
            }),
            Err(error) if described && weights == Weights::Optional => {
                let spec = models::read_spec(path)?;
                tracing::debug!("{error}");
                Ok(Self {
                    spec,
                    checkpoint: None,
                })
            }
            Err(error) => {
                Err(error).with_context(|| format!("cannot open the model at {}", path.display()))
            }
        }
    }

    /// Bytes of the weights: as stored, or as the description's type would store them.
    pub(crate) fn weight_bytes(&self) -> usize {
        let stored = |checkpoint: &Checkpoint| {
            checkpoint
                .weights()
                .tensors()
                .iter()
                .map(|tensor| tensor.range.len())
                .sum()
        };
        let described = || self.spec.parameters() * self.spec.dtype.map_or(2, DType::size);
        self.checkpoint.as_ref().map_or_else(described, stored)
    }

    /// Weights by the way they are written, the largest share first.
    pub(crate) fn shares(&self) -> Vec<(&'static str, Share)> {
        let mut shares: BTreeMap<&str, Share> = BTreeMap::new();
        let tensors = self
            .checkpoint
            .iter()
            .flat_map(|checkpoint| checkpoint.weights().tensors());
        for tensor in tensors {
            let share = shares.entry(tensor.encoding.name()).or_default();
            share.tensors += 1;
            share.bytes += tensor.range.len();
        }
        let mut shares: Vec<_> = shares.into_iter().collect();
        shares.sort_by_key(|(_, share)| std::cmp::Reverse(share.bytes));
        shares
    }

    /// The type that most of the weights have.
    pub(crate) fn main_type(&self) -> &'static str {
        let described = || self.spec.dtype.map_or("unknown", DType::name);
        self.shares()
            .first()
            .map_or_else(described, |(name, _)| *name)
    }
}

/// Whether a model without weights is of use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Weights {
    /// It is not.
    Required,
    /// Its description is enough.
    Optional,
}
