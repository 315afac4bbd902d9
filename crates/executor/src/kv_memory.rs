use models::ModelSpec;
use ops::{Device, DeviceError, Heads, KvCache};
use tensor::{Buffer, DType, ViewMut};

use crate::ExecutorConfig;

/// Keys and values of all layers: one allocation, two matrices a layer.
pub(crate) struct KvMemory {
    buffer: Buffer,
    layers: usize,
    slots: usize,
    heads: Heads,
    dtype: DType,
}

impl KvMemory {
    pub(crate) fn allocate(
        device: &dyn Device,
        spec: &ModelSpec,
        config: &ExecutorConfig,
    ) -> Result<Self, DeviceError> {
        let (slots, dtype) = (config.slots(), config.kv_dtype);
        let bytes = 2 * spec.layers * slots * spec.heads.kv_width() * dtype.size();
        let buffer = device.allocate(bytes, "keys and values")?;
        Ok(Self {
            buffer,
            layers: spec.layers,
            slots,
            heads: spec.heads,
            dtype,
        })
    }

    /// Keys and values of every layer, keys first.
    pub(crate) fn matrices(&mut self) -> Vec<ViewMut<'_>> {
        let (count, width) = (2 * self.layers, self.heads.kv_width());
        let mut rest = self
            .buffer
            .view_mut(0, count * self.slots, width, self.dtype);
        let mut matrices = Vec::with_capacity(count);
        for _ in 0..count {
            let (first, others) = rest.split_rows(self.slots);
            matrices.push(first);
            rest = others;
        }
        matrices
    }

    /// One cache a layer.
    pub(crate) fn caches(&mut self) -> Vec<KvCache<'_>> {
        let mut matrices = self.matrices().into_iter();
        let mut caches = Vec::with_capacity(matrices.len() / 2);
        while let (Some(keys), Some(values)) = (matrices.next(), matrices.next()) {
            caches.push(KvCache::new(keys, values));
        }
        caches
    }

    pub(crate) fn bytes(&self) -> usize {
        self.buffer.bytes()
    }
}
