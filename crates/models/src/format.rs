use checkpoint::{BlockFormat, Encoding, TensorInfo, WeightSource};
use ops::{Device, WeightFormat};
use tensor::DType;

use crate::{Quantisation, scales};

/// The format that says exactly what a tensor says; `None` when it holds no weights, or its scales are not to be found.
pub(crate) fn stored(
    source: &dyn WeightSource,
    tensor: &TensorInfo,
    quantisation: &Quantisation,
) -> Option<WeightFormat> {
    if tensor.encoding != Encoding::Plain(DType::F8E4M3) {
        return natural(tensor.encoding);
    }
    let block = scales::block_of(source, tensor, quantisation)?;
    Some(scales::format(block, tensor.shape[1]))
}

/// The format that a projection should have on a device: its own, unless wider numbers are to become eight-bit floats.
///
/// Only layers' projections do: the output head decides between tokens whose scores are close.
pub(crate) fn wanted(
    module: &str,
    stored: WeightFormat,
    quantisation: &Quantisation,
    device: &dyn Device,
) -> WeightFormat {
    let online = WeightFormat::Float8 { group: 0 };
    let wide = matches!(stored, WeightFormat::Plain(_)) && module.ends_with("_proj");
    if wide && *quantisation == Quantisation::OnlineFloat8 && device.supports(online) {
        return online;
    }
    stored
}

/// The device-neutral format that says exactly what an encoding says; `None` when it holds no weights.
fn natural(encoding: Encoding) -> Option<WeightFormat> {
    match encoding {
        Encoding::Plain(dtype @ (DType::F32 | DType::F16 | DType::BF16)) => {
            Some(WeightFormat::Plain(dtype))
        }
        Encoding::Plain(_) => None,
        Encoding::Block(format) => Some(WeightFormat::Affine {
            bits: if format.bits() <= 4 { 4 } else { 8 },
            group: format.group() as u16,
        }),
    }
}

/// The format in which a device takes weights: their own, else plain numbers of its activations, else f32.
pub(crate) fn accepted(device: &dyn Device, natural: WeightFormat) -> Option<WeightFormat> {
    let plain = WeightFormat::Plain;
    [natural, plain(device.info().activation), plain(DType::F32)]
        .into_iter()
        .find(|&format| device.supports(format))
}

/// Bytes that `elements` weights take on a device that packs them as tightly as `format` allows.
pub(crate) fn bytes(encoding: Encoding, format: WeightFormat, elements: usize) -> usize {
    match (format, encoding) {
        (WeightFormat::Plain(dtype), _) => elements * dtype.size(),
        (WeightFormat::Affine { bits, group }, Encoding::Block(block)) => {
            let group_bytes = scale_bytes(block);
            elements * usize::from(bits) / 8 + elements / usize::from(group) * group_bytes
        }
        (WeightFormat::Affine { .. }, Encoding::Plain(_)) => elements * encoding.bytes(),
        // Scales are tensors of their own, or a number a row.
        (WeightFormat::Float8 { .. }, _) => elements,
    }
}

/// Bytes of a group's scale and minimum: halves as in the file, or f32 where they are products of two numbers.
/// A minimum that is a fixed multiple of the scale takes nothing.
fn scale_bytes(format: BlockFormat) -> usize {
    match format {
        BlockFormat::Q4_0 | BlockFormat::Q5_0 | BlockFormat::Q8_0 => 2,
        BlockFormat::Q4_1 | BlockFormat::Q5_1 | BlockFormat::Q6_K => 4,
        BlockFormat::Q4_K | BlockFormat::Q5_K => 8,
    }
}
