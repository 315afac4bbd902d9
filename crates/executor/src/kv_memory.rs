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
        let bytes = 2 * spec.layers.len() * slots * spec.heads.kv_width() * dtype.size();
        let buffer = device.allocate(bytes, "keys and values")?;
        Ok(Self {
            buffer,
            layers: spec.layers.len(),
            slots,
            heads: spec.heads,
            dtype,
        })
    }

    /// Matrices of as many slots each: keys and values of every layer, keys first.
    pub(crate) fn planes(&self) -> usize {
        2 * self.layers
    }

    /// All planes, one after the other.
    pub(crate) fn view_mut(&mut self) -> ViewMut<'_> {
        let (slots, width) = (self.planes() * self.slots, self.heads.kv_width());
        self.buffer.view_mut(0, slots, width, self.dtype)
    }

    /// One cache a layer.
    pub(crate) fn caches(&mut self) -> Vec<KvCache<'_>> {
        let (layers, slots) = (self.layers, self.slots);
        let mut rest = self.view_mut();
        let mut caches = Vec::with_capacity(layers);
        for _ in 0..layers {
            let (keys, others) = rest.split_rows(slots);
            let (values, others) = others.split_rows(slots);
            caches.push(KvCache::new(keys, values));
            rest = others;
        }
        caches
    }

    pub(crate) fn bytes(&self) -> usize {
        self.buffer.bytes()
    }
}
