use serde::Deserialize;

use crate::SpecError;

/// How the projections of a model are written, beyond what each tensor says of itself.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub enum Quantisation {
    /// As the tensors are.
    #[default]
    AsStored,
    /// Files hold floats of eight bits and scales beside them.
    Float8 {
        /// Rows and columns that share a scale; none: a scale a tensor or a row.
        block: Option<[usize; 2]>,
        /// Modules that are left as they were, by name or by its end.
        skipped: Vec<String>,
    },
    /// Files hold wider numbers; while they are loaded they become floats of eight bits with a scale a row.
    OnlineFloat8,
}

impl Quantisation {
    /// The block that scales in files cover, when the description says so.
    pub(crate) fn block(&self) -> Option<[usize; 2]> {
        match self {
            Self::Float8 { block, .. } => *block,
            Self::AsStored | Self::OnlineFloat8 => None,
        }
    }

    /// True when files hold this projection as floats of eight bits.
    pub(crate) fn stores_float8(&self, module: &str) -> bool {
        match self {
            Self::Float8 { skipped, .. } => {
                module != "lm_head" && !skipped.iter().any(|name| module.ends_with(name.as_str()))
            }
            Self::AsStored | Self::OnlineFloat8 => false,
        }
    }
}

/// `quantization_config` of a config.json, as several tools write it.
#[derive(Deserialize)]
pub(crate) struct QuantisationConfig {
    quant_method: Option<String>,
    fmt: Option<String>,
    weight_block_size: Option<Vec<usize>>,
    modules_to_not_convert: Option<Vec<String>>,
    ignored_layers: Option<Vec<String>>,
    ignore: Option<Vec<String>>,
    format: Option<String>,
    config_groups: Option<serde_json::Map<String, serde_json::Value>>,
}

impl QuantisationConfig {
    /// What it says, or that it cannot be followed.
    pub(crate) fn understood(self) -> Result<Quantisation, SpecError> {
        let method = self.quant_method.clone().unwrap_or_default();
        match method.as_str() {
            "fp8" if self.fmt.as_deref().is_none_or(|fmt| fmt == "e4m3") => {}
            "compressed-tensors" if self.format.as_deref() == Some("float-quantized") => {
                return self.compressed();
            }
            _ => {
                let found = [Some(method), self.fmt, self.format];
                return Err(SpecError::Option {
                    what: "quantization_config",
                    found: found.into_iter().flatten().collect::<Vec<_>>().join(" "),
                    supported: "fp8 (e4m3), compressed-tensors float-quantized, unquantised safetensors and GGUF files",
                });
            }
        }
        let block = self.weight_block_size.as_deref().map(pair).transpose()?;
        let lists = [self.modules_to_not_convert, self.ignored_layers];
        Ok(Quantisation::Float8 {
            block,
            skipped: lists.into_iter().flatten().flatten().collect(),
        })
    }

    fn compressed(self) -> Result<Quantisation, SpecError> {
        let groups = self.config_groups.unwrap_or_default();
        let mut block = None;
        for weights in groups.values().filter_map(|group| group.get("weights")) {
            let is = |key: &str, wanted: &str| weights.get(key).is_some_and(|v| v == wanted);
            if !is("type", "float") || weights.get("num_bits").is_none_or(|bits| bits != 8) {
                return Err(SpecError::Option {
                    what: "quantization_config",
                    found: weights.to_string(),
                    supported: "floats of 8 bits",
                });
            }
            if is("strategy", "block") {
                let stated: Vec<usize> = weights
                    .get("block_structure")
                    .and_then(|pair| serde_json::from_value(pair.clone()).ok())
                    .unwrap_or_default();
                block = Some(pair(&stated)?);
            }
        }
        Ok(Quantisation::Float8 {
            block,
            skipped: self.ignore.unwrap_or_default(),
        })
    }
}

/// Rows and columns of a block.
fn pair(stated: &[usize]) -> Result<[usize; 2], SpecError> {
    match stated {
        &[rows, cols] if rows.min(cols) > 0 && rows.max(cols) <= 1 << 20 => Ok([rows, cols]),
        _ => Err(SpecError::Option {
            what: "weight_block_size",
            found: format!("{stated:?}"),
            supported: "two numbers from 1 to 1048576",
        }),
    }
}
