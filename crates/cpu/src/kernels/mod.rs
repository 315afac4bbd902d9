//! One file per op.

use ops::{
    AddRmsNorm, Attend, CountTokens, DeviceError, EditLogits, Embed, GatedActivation, GatherRows,
    HostWeight, Kernels, Linear, LogProbs, OpError, Penalise, ResolveTokens, RmsNorm, Rope, Sample,
    StoreKv, UpdatePages, Weight,
};

use crate::device::Activations;
use crate::team::Team;

/// The ops of the CPU.
pub(crate) struct CpuKernels {
    team: Team,
    activations: Activations,
}

struct Numbers(Vec<f32>);

fn numbers(weight: &Weight) -> Result<&[f32], OpError> {
    let layout = weight
        .layout::<Numbers>()
        .ok_or_else(|| DeviceError::UnsupportedWeight {
            device: "the cpu".into(),
            format: weight.format().to_string(),
        })?;
    Ok(&layout.0)
}

impl CpuKernels {
    pub(crate) fn new(threads: usize, activations: Activations) -> Self {
        Self {
            team: Team::new(threads),
            activations,
        }
    }

    pub(crate) fn load_weight(&self, weight: &HostWeight<'_>) -> Weight {
        let numbers: Vec<f32> = (0..weight.rows).flat_map(|row| weight.row(row)).collect();
        let bytes = numbers.len() * 4;
        Weight::new(
            weight.rows,
            weight.cols,
            weight.format(),
            bytes,
            Box::new(Numbers(numbers)),
        )
    }
}

macro_rules! by_reference {
    ($($method:ident: $op:ident),* $(,)?) => {
        $(fn $method(&self, op: $op<'_>) -> Result<(), OpError> {
            op.check()?;
            op.reference();
            Ok(())
        })*
    };
}

impl Kernels for CpuKernels {
    by_reference!(
        resolve_tokens: ResolveTokens, update_pages: UpdatePages, count_tokens: CountTokens, rms_norm: RmsNorm,
        add_rms_norm: AddRmsNorm, rope: Rope, store_kv: StoreKv, attend: Attend, gated_activation: GatedActivation,
        gather_rows: GatherRows, edit_logits: EditLogits, penalise: Penalise, sample: Sample, log_probs: LogProbs,
    );

    fn embed(&self, op: Embed<'_>) -> Result<(), OpError> {
        op.check()?;
        let table = numbers(op.table)?;
        op.reference(table);
        Ok(())
    }

    fn linear(&self, op: Linear<'_>) -> Result<(), OpError> {
        op.check()?;
        let weight = numbers(op.weight)?;
        op.reference(weight);
        Ok(())
    }
}
