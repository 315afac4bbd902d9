use std::collections::BTreeMap;

use checkpoint::{TensorInfo, WeightSource};
use ops::program::VectorSource;
use ops::{Device, WeightFormat};

use crate::{ModelSpec, Quantisation, format, scales};

/// Every tensor that a model of this spec is made of: its name and shape.
pub(crate) fn tensors(spec: &ModelSpec) -> Vec<(String, Vec<usize>)> {
    let program = crate::program(spec, 1);
    let mut list = Vec::new();
    for decl in &program.weights {
        for part in &decl.parts {
            list.push((
                format!("{}.weight", part.module),
                vec![part.rows, decl.cols],
            ));
        }
    }
    for decl in &program.vectors {
        if let VectorSource::Stored(parts, _) = &decl.source {
            list.extend(
                parts
                    .iter()
                    .map(|(name, length)| (name.clone(), vec![*length])),
            );
        }
    }
    list
}

/// What a checkpoint's weights are and will take, told from its headers alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inventory {
    /// Bytes in the files.
    pub file_bytes: usize,
    /// Bytes on the device, once packed; what the device adds for alignment is not counted.
    pub device_bytes: usize,
    /// Bytes that weights take once more when they are folded.
    pub folded_bytes: usize,
    /// Number formats by falling number of elements: name, tensors, elements.
    pub formats: Vec<(&'static str, usize, usize)>,
    /// What matrices become on the device, by falling number of elements: name, elements.
    pub device_formats: Vec<(String, usize)>,
}

impl Inventory {
    /// Looks at every tensor's header; formats that the device does not take are counted as what they become.
    pub fn of(source: &dyn WeightSource, quantisation: &Quantisation, device: &dyn Device) -> Self {
        let mut by_name: BTreeMap<&'static str, (usize, usize)> = BTreeMap::new();
        let mut on_device: BTreeMap<String, usize> = BTreeMap::new();
        let (mut file_bytes, mut device_bytes, mut folded_bytes) = (0, 0, 0);
        // a table that nothing is multiplied with is not folded
        let looked_up = source
            .find("lm_head.weight")
            .map(|_| "model.embed_tokens.weight");
        for tensor in source.tensors() {
            let elements = tensor.elements();
            let (tensors, total) = by_name.entry(tensor.encoding.name()).or_default();
            *tensors += 1;
            *total += elements;
            file_bytes += tensor.range.len();
            let small = tensor.shape.len() < 2
                || scales::NAMES.iter().any(|name| tensor.name.ends_with(name));
            if small {
                device_bytes += elements * size_of::<f32>();
                continue;
            }
            match device_format(source, tensor, quantisation, device) {
                Some(format) => {
                    device_bytes += format::bytes(tensor.encoding, format, elements);
                    *on_device.entry(format.to_string()).or_default() += elements;
                    if let (&[rows, cols], true) =
                        (tensor.shape.as_slice(), looked_up != Some(&tensor.name))
                    {
                        folded_bytes += device.folded_bytes((rows, cols), format);
                    }
                }
                None => device_bytes += tensor.range.len(),
            }
        }
        let mut device_formats: Vec<_> = on_device.into_iter().collect();
        device_formats.sort_by_key(|&(_, elements)| std::cmp::Reverse(elements));
        let mut formats: Vec<_> = by_name
            .into_iter()
            .map(|(name, (tensors, elements))| (name, tensors, elements))
            .collect();
        formats.sort_by_key(|&(_, _, elements)| std::cmp::Reverse(elements));
        Self {
            file_bytes,
            device_bytes,
            folded_bytes,
            formats,
            device_formats,
        }
    }

    /// The format that most weights have.
    pub fn quantisation(&self) -> &'static str {
        self.formats.first().map_or("none", |(name, _, _)| name)
    }
}

/// The format in which a device takes a matrix.
fn device_format(
    source: &dyn WeightSource,
    tensor: &TensorInfo,
    quantisation: &Quantisation,
    device: &dyn Device,
) -> Option<WeightFormat> {
    let stored = format::stored(source, tensor, quantisation)?;
    let module = tensor.name.strip_suffix(".weight")?;
    let wanted = format::wanted(module, stored, quantisation, device);
    format::accepted(device, wanted)
}
