//! The references as a device: slow, exact, and what every other device is compared with.

use tensor::{Buffer, DType, View, ViewMut};

use crate::host::{HostReadback, HostStaging, copy_rows, host_values};
use crate::{
    AddRmsNorm, Attend, CopyPages, CountTokens, Device, DeviceError, DeviceInfo, EditLogits, Embed,
    GatedActivation, GatherRows, HostWeight, Kernels, Linear, LogProbs, OpError, Penalise,
    Readback, ResolveTokens, RmsNorm, Rope, RopeStoreKv, Sample, Staging, StoreKv, UpdatePages,
    Weight, WeightFormat,
};

/// Runs every op by its definition, in f32 on the host.
pub struct ReferenceDevice {
    info: DeviceInfo,
}

impl Default for ReferenceDevice {
    fn default() -> Self {
        Self {
            info: DeviceInfo {
                kind: "reference",
                name: "plain loops".into(),
                memory_total: 1 << 30,
                memory_free: 1 << 30,
                units: 1,
                features: "f64 sums".into(),
                activation: DType::F32,
                kv: DType::F32,
                float8: true,
            },
        }
    }
}

impl ReferenceDevice {
    /// With activations of this type.
    pub fn computing(mut self, activation: DType) -> Self {
        self.info.activation = activation;
        self
    }

    /// With keys and values of this type.
    pub fn keeping(kv: DType) -> Self {
        let mut device = Self::default();
        device.info.kv = kv;
        device
    }
}

/// The layout of a reference weight: every number as f32.
struct Numbers(Vec<f32>);

fn numbers(weight: &Weight) -> Result<&[f32], OpError> {
    let layout = weight
        .layout::<Numbers>()
        .ok_or_else(|| DeviceError::UnsupportedWeight {
            device: "the reference".into(),
            format: weight.format().to_string(),
        })?;
    Ok(&layout.0)
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

impl Kernels for ReferenceDevice {
    by_reference!(
        resolve_tokens: ResolveTokens, update_pages: UpdatePages, copy_pages: CopyPages, count_tokens: CountTokens, rms_norm: RmsNorm,
        add_rms_norm: AddRmsNorm, rope: Rope, store_kv: StoreKv, rope_store_kv: RopeStoreKv, attend: Attend, gated_activation: GatedActivation,
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

impl Device for ReferenceDevice {
    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    fn kernels(&self) -> &dyn Kernels {
        self
    }

    fn allocate(&self, bytes: usize, _: &'static str) -> Result<Buffer, DeviceError> {
        Ok(Buffer::host(bytes))
    }

    fn supports(&self, _: WeightFormat) -> bool {
        true
    }

    fn load_weight(&self, weight: HostWeight<'_>) -> Result<Weight, DeviceError> {
        let numbers: Vec<f32> = (0..weight.rows).flat_map(|row| weight.row(row)).collect();
        let bytes = numbers.len() * 4;
        Ok(Weight::new(
            weight.rows,
            weight.cols,
            weight.format(),
            bytes,
            Box::new(Numbers(numbers)),
        ))
    }

    fn load_values(&self, values: &[f32], dtype: DType) -> Result<Buffer, DeviceError> {
        Ok(host_values(values, dtype))
    }

    fn staging(&self, bytes: usize) -> Result<Box<dyn Staging>, DeviceError> {
        Ok(Box::new(HostStaging::new(bytes)))
    }

    fn readback(&self, bytes: usize) -> Result<Box<dyn Readback>, DeviceError> {
        Ok(Box::new(HostReadback::new(bytes)))
    }

    fn copy(&self, from: View<'_>, to: ViewMut<'_>) -> Result<(), DeviceError> {
        copy_rows(from, to);
        Ok(())
    }
}
