//! What the memory of a device goes to, before anything is taken.

use executor::ExecutorConfig;
use models::{ModelSpec, Quantisation};
use ops::DeviceInfo;

use crate::progress::size;

/// The fewest tokens of KV cache that are worth starting with.
const FEWEST_TOKENS: usize = 256;

/// Rows whose log-probabilities are computed together, in the estimate.
const SCORED_TOGETHER: usize = 64;

/// A device's memory, divided.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Budget {
    /// The share of memory that was given.
    pub(crate) fraction: f64,
    /// Bytes that may be used in all.
    pub(crate) given: usize,
    /// Bytes of weights.
    pub(crate) weights: usize,
    /// Bytes of weights that are kept a second time, folded.
    pub(crate) folded: usize,
    /// Bytes of work space, tables, and what inputs and results pass through.
    pub(crate) work: usize,
    /// Bytes of keys and values for one token.
    pub(crate) token: usize,
    /// Tokens of KV cache that fit in the rest.
    pub(crate) tokens: usize,
    /// What would make the weights take less, in words.
    pub(crate) smaller: &'static str,
}

/// What a model needs of a device.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Needs {
    /// Bytes of weights.
    pub(crate) weights: usize,
    /// Bytes of work space and tables.
    pub(crate) work: usize,
    /// Bytes of keys and values for one token.
    pub(crate) token: usize,
    /// What would make the weights take less, in words.
    pub(crate) smaller: &'static str,
}

/// A model that does not fit, with the numbers.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct NoRoom {
    budget: Budget,
    on_cpu: bool,
    /// Bytes of the device's memory, and how many of them nobody uses.
    total: usize,
    free: usize,
}

impl NoRoom {
    fn cache(&self) -> usize {
        FEWEST_TOKENS * self.budget.token
    }

    fn needed(&self) -> usize {
        let work = if self.on_cpu { self.budget.work } else { 0 };
        self.budget.weights + work + self.cache()
    }

    /// The least share of memory that would do, if any does; work space on a GPU comes out of the rest.
    fn enough(&self) -> Option<f64> {
        let least = if self.on_cpu {
            self.needed() as f64 / self.free as f64
        } else {
            1.0 - (self.free as f64 - self.needed() as f64) / self.total as f64
        };
        let (least, most) = ((least * 1000.0).ceil() / 1000.0, 0.99);
        (least <= most).then_some(least)
    }

    fn advice(&self) -> String {
        let mut knobs = Vec::new();
        if let Some(least) = self.enough() {
            knobs.push(format!("raise --mem-fraction-static to {least}"));
        }
        if self.on_cpu && self.budget.work > self.budget.weights / 8 {
            knobs.push("lower --max-running-requests or --chunked-prefill-size".to_owned());
        }
        let taken = self.total - self.free.min(self.total);
        if !self.on_cpu && taken > self.total / 16 {
            let taken = size(taken as u64);
            knobs.push(format!("stop what else uses the device ({taken})"));
        }
        knobs.push(self.budget.smaller.to_owned());
        knobs.join(", or ")
    }
}

impl std::fmt::Display for NoRoom {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let budget = &self.budget;
        let short = self.needed().saturating_sub(budget.given);
        let work = if self.on_cpu {
            format!(", {} to work in", size(budget.work as u64))
        } else {
            String::new()
        };
        write!(
            out,
            "the model needs {} for weights{work} and {} for a cache of {FEWEST_TOKENS} tokens, but only {} may be \
             used ({} are free of {}, --mem-fraction-static is {}), {} too little; {}",
            size(budget.weights as u64),
            size(self.cache() as u64),
            size(budget.given as u64),
            size(self.free as u64),
            size(self.total as u64),
            budget.fraction,
            size(short as u64),
            self.advice(),
        )
    }
}

impl Budget {
    /// Divides what the fraction allows: on a GPU the fraction is of all memory, on the CPU of what is free.
    pub(crate) fn divide(device: &DeviceInfo, fraction: f64, needs: Needs) -> Result<Self, NoRoom> {
        let Needs {
            weights,
            work,
            token,
            smaller,
        } = needs;
        let share = |bytes: usize| (bytes as f64 * fraction) as usize;
        let given = if device.kind == "cpu" {
            share(device.memory_free)
        } else {
            let kept_free = device.memory_total - share(device.memory_total);
            device.memory_free.saturating_sub(kept_free)
        };
        // on a GPU work space comes out of what the fraction leaves
        let on_cpu = device.kind == "cpu";
        let beside = if on_cpu { work } else { 0 };
        let rest = given.saturating_sub(weights).saturating_sub(beside);
        let budget = Self {
            fraction,
            given,
            weights,
            folded: 0,
            work,
            token,
            tokens: rest / token.max(1),
            smaller,
        };
        if budget.tokens < FEWEST_TOKENS {
            Err(NoRoom {
                budget,
                on_cpu,
                total: device.memory_total,
                free: device.memory_free,
            })
        } else {
            Ok(budget)
        }
    }

    /// Bytes that keys and values have.
    pub(crate) fn rest(&self) -> usize {
        self.tokens * self.token
    }

    /// With so many bytes of folded weights, where enough is left for keys and values.
    pub(crate) fn with_folded(self, folded: usize) -> Option<Self> {
        let tokens = self.rest().checked_sub(folded)? / self.token.max(1);
        (tokens >= FEWEST_TOKENS).then_some(Self {
            folded,
            tokens,
            ..self
        })
    }
}

/// What would make weights take less on a device, in words. On a GPU blocks of GGUF become bf16, and only what is stored
/// wide becomes eight-bit floats, if anything does.
pub(crate) fn smaller(
    device: &DeviceInfo,
    quantisation: &Quantisation,
    stored_wide: bool,
) -> &'static str {
    match quantisation {
        _ if device.kind == "cuda" && !device.float8 => "take a smaller model",
        _ if device.kind != "cuda" => "take a smaller or more strongly quantised model",
        Quantisation::AsStored if stored_wide => "take a smaller model, or --quantization fp8",
        Quantisation::AsStored => {
            "take a smaller model, or this one as safetensors with --quantization fp8 (quantised GGUF weights are bf16 \
             on a GPU)"
        }
        Quantisation::Float8 { .. } | Quantisation::OnlineFloat8 => "take a smaller model",
    }
}

/// Work space before the model is there to be measured: activations of a step and logits of its rows.
pub(crate) fn estimate_scratch(spec: &ModelSpec, config: &ExecutorConfig) -> usize {
    let heads = &spec.heads;
    let projected = heads.query_width() + 2 * heads.kv_width();
    let widest = (projected + heads.query_width()).max(2 * spec.feed_forward);
    let step = config.max_step_tokens * (3 * spec.hidden + widest);
    let scored = config.max_rows.max(SCORED_TOGETHER) * (spec.vocabulary + spec.hidden);
    4 * (step + scored)
}

/// Tables with a place for every row: pages, last tokens and token counts.
pub(crate) fn tables(spec: &ModelSpec, config: &ExecutorConfig) -> usize {
    config.table_rows() * (4 + 4 * config.max_pages_per_row() + 2 * spec.vocabulary)
}

#[cfg(test)]
mod tests {
    use tensor::DType;

    use super::*;

    const GB: usize = 1_000_000_000;

    fn device(kind: &'static str, total: usize, free: usize) -> DeviceInfo {
        DeviceInfo {
            kind,
            name: "test".into(),
            memory_total: total,
            memory_free: free,
            units: 1,
            features: String::new(),
            activation: DType::F32,
            kv: DType::F16,
            float8: true,
        }
    }

    fn needs(weights: usize, work: usize) -> Needs {
        Needs {
            weights,
            work,
            token: 1000,
            smaller: "take a smaller model",
        }
    }

    #[test]
    fn the_cpu_shares_what_is_free_and_a_gpu_what_it_has() {
        let cpu = Budget::divide(&device("cpu", 16 * GB, 10 * GB), 0.8, needs(GB, GB)).unwrap();
        assert_eq!((cpu.given, cpu.tokens), (8 * GB, 6_000_000));
        let gpu =
            Budget::divide(&device("cuda", 100 * GB, 95 * GB), 0.9, needs(20 * GB, GB)).unwrap();
        assert_eq!((gpu.given, gpu.tokens), (85 * GB, 65_000_000));
    }

    #[test]
    fn a_model_that_does_not_fit_is_refused_with_the_difference_and_knobs_that_help() {
        let cases = [
            (
                Budget::divide(&device("cpu", 8 * GB, 6 * GB), 0.5, needs(3 * GB, GB)),
                "3.0 GB for weights, 1.0 GB to work in and 256.0 kB for a cache of 256 tokens, but only 3.0 GB may \
                 be used (6.0 GB are free of 8.0 GB, --mem-fraction-static is 0.5), 1.0 GB too little; raise \
                 --mem-fraction-static to 0.667, or lower --max-running-requests",
            ),
            (
                Budget::divide(&device("cpu", 4 * GB, 2 * GB), 0.5, needs(3 * GB, GB / 8)),
                "2.1 GB too little; take a smaller",
            ),
            (
                Budget::divide(&device("cuda", 100 * GB, 99 * GB), 0.5, needs(60 * GB, GB)),
                "11.0 GB too little; raise --mem-fraction-static to 0.611, or take a smaller",
            ),
            (
                Budget::divide(&device("cuda", 100 * GB, 50 * GB), 0.9, needs(60 * GB, GB)),
                "20.0 GB too little; stop what else uses the device (50.0 GB), or take a smaller model",
            ),
        ];
        for (divided, expected) in cases {
            let message = divided.unwrap_err().to_string();
            assert!(message.contains(expected), "{message}");
        }
    }

    #[test]
    fn what_is_said_to_make_weights_smaller_does_so_on_that_device() {
        let stored = || Quantisation::AsStored;
        let float8 = Quantisation::Float8 {
            block: None,
            skipped: Vec::new(),
        };
        let [cpu, gpu] = ["cpu", "cuda"].map(|kind| device(kind, 80 * GB, 80 * GB));
        let plain = DeviceInfo {
            float8: false,
            ..gpu.clone()
        };
        let less = "take a smaller model";
        for (device, quantisation, wide, expected) in [
            (
                &cpu,
                stored(),
                false,
                "take a smaller or more strongly quantised model",
            ),
            (
                &gpu,
                stored(),
                true,
                "take a smaller model, or --quantization fp8",
            ),
            (
                &gpu,
                stored(),
                false,
                "this one as safetensors with --quantization fp8",
            ),
            (&plain, stored(), true, less),
            (&gpu, Quantisation::OnlineFloat8, true, less),
            (&gpu, float8, false, less),
        ] {
            let found = smaller(device, &quantisation, wide);
            assert!(found.contains(expected), "{found}");
            assert_eq!(found.contains("fp8"), expected.contains("fp8"), "{found}");
        }
    }
}
