//! Any encoding of real numbers to f32.

use half::slice::HalfFloatSliceExt as _;
use half::{bf16, f16};
use tensor::DType;

use crate::Encoding;
use crate::gguf::blocks;

/// Why bytes cannot be widened.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum WidenError {
    /// The encoding does not hold plain real numbers.
    #[error("{encoding} cannot be widened to F32 by itself")]
    Encoding {
        /// Its name.
        encoding: &'static str,
    },
    /// The bytes are not those of so many elements.
    #[error("{bytes} bytes of {encoding} are not {elements} elements")]
    Length {
        /// The name of the encoding.
        encoding: &'static str,
        /// Bytes given.
        bytes: usize,
        /// Elements wanted.
        elements: usize,
    },
}

/// Writes the values of `bytes` as f32, rounding nothing: blocks are de-quantised exactly as ggml defines them.
pub fn widen(encoding: Encoding, bytes: &[u8], out: &mut [f32]) -> Result<(), WidenError> {
    if encoding.bytes_of(&[out.len()]) != Some(bytes.len()) {
        let (encoding, elements) = (encoding.name(), out.len());
        return Err(WidenError::Length {
            encoding,
            bytes: bytes.len(),
            elements,
        });
    }
    match encoding {
        Encoding::Plain(DType::F32) => {
            for (value, four) in out.iter_mut().zip(bytes.as_chunks::<4>().0) {
                *value = f32::from_le_bytes(*four);
            }
        }
        Encoding::Plain(DType::F16) => {
            // Many at once: one by one they take six times as long.
            const RUN: usize = 64;
            for (values, bytes) in out.chunks_mut(RUN).zip(bytes.chunks(2 * RUN)) {
                let mut halves = [f16::ZERO; RUN];
                for (half, two) in halves.iter_mut().zip(bytes.as_chunks::<2>().0) {
                    *half = f16::from_le_bytes(*two);
                }
                halves[..values.len()].convert_to_f32_slice(values);
            }
        }
        Encoding::Plain(DType::BF16) => {
            for (value, two) in out.iter_mut().zip(bytes.as_chunks::<2>().0) {
                *value = bf16::from_le_bytes(*two).to_f32();
            }
        }
        Encoding::Plain(_) => {
            return Err(WidenError::Encoding {
                encoding: encoding.name(),
            });
        }
        Encoding::Block(format) => blocks::dequantise(format, bytes, out),
    }
    Ok(())
}
