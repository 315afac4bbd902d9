//! The layouts of GGUF's quantised blocks.
//!
//! Every format is the same thing written differently: groups of elements with `value = scale × quant + minimum`, where
//! quants are unsigned. Scales and minimums of the file are f16 times small integers, so this reading is exact.

use half::f16;

use crate::BlockFormat;

/// A block's elements taken apart: `value[i] = scales[g] × quants[i] + minimums[g]` with `g = i / group`.
#[derive(Debug)]
pub struct Groups<'a> {
    /// One byte per element.
    pub quants: &'a mut [u8],
    /// One per group.
    pub scales: &'a mut [f32],
    /// One per group.
    pub minimums: &'a mut [f32],
}

/// Most elements and groups of any block.
const MOST_ELEMENTS: usize = 256;
const MOST_GROUPS: usize = 16;

impl BlockFormat {
    /// Elements that share a scale and a minimum.
    pub const fn group(self) -> usize {
        match self {
            Self::Q6_K => 16,
            _ => 32,
        }
    }

    /// Bits of the largest quant.
    pub const fn bits(self) -> u8 {
        match self {
            Self::Q4_0 | Self::Q4_1 | Self::Q4_K => 4,
            Self::Q5_0 | Self::Q5_1 | Self::Q5_K => 5,
            Self::Q6_K => 6,
            Self::Q8_0 => 8,
        }
    }
}

/// Takes whole blocks apart.
///
/// # Panics
/// When `bytes` are not whole blocks, or `groups` has not room for exactly their elements.
pub fn take_apart(format: BlockFormat, bytes: &[u8], groups: Groups<'_>) {
    let Groups {
        quants,
        scales,
        minimums,
    } = groups;
    let (elements, per_block) = (format.elements(), format.elements() / format.group());
    let blocks = bytes.len() / format.bytes();
    assert_eq!(
        bytes.len(),
        blocks * format.bytes(),
        "bytes are whole blocks"
    );
    assert_eq!(quants.len(), blocks * elements, "one quant per element");
    assert_eq!(scales.len(), blocks * per_block, "one scale per group");
    assert_eq!(minimums.len(), blocks * per_block, "one minimum per group");
    let read = match format {
        BlockFormat::Q4_0 => read_q4_0,
        BlockFormat::Q4_1 => read_q4_1,
        BlockFormat::Q5_0 => read_q5_0,
        BlockFormat::Q5_1 => read_q5_1,
        BlockFormat::Q8_0 => read_q8_0,
        BlockFormat::Q4_K => read_q4_k,
        BlockFormat::Q5_K => read_q5_k,
        BlockFormat::Q6_K => read_q6_k,
    };
    let places = quants.chunks_exact_mut(elements).zip(
        scales
            .chunks_exact_mut(per_block)
            .zip(minimums.chunks_exact_mut(per_block)),
    );
    for (block, (quants, (scales, minimums))) in bytes.chunks_exact(format.bytes()).zip(places) {
        read(
            block,
            &mut Groups {
                quants,
                scales,
                minimums,
            },
        );
    }
}

/// Writes the values of whole blocks, equal to those of ggml's own de-quantisation.
///
/// # Panics
/// When `out` has not room for exactly the elements of `bytes`.
pub fn dequantise(format: BlockFormat, bytes: &[u8], out: &mut [f32]) {
    let (elements, group) = (format.elements(), format.group());
    let blocks = bytes.len() / format.bytes();
    assert_eq!(
        bytes.len(),
        blocks * format.bytes(),
        "bytes are whole blocks"
    );
    assert_eq!(out.len(), blocks * elements, "one value per element");
    let mut quants = [0; MOST_ELEMENTS];
    let mut scales = [0.0; MOST_GROUPS];
    let mut minimums = [0.0; MOST_GROUPS];
    let quants = &mut quants[..elements];
    let scales = &mut scales[..elements / group];
    let minimums = &mut minimums[..elements / group];
    for (block, out) in bytes
        .chunks_exact(format.bytes())
        .zip(out.chunks_exact_mut(elements))
    {
        take_apart(
            format,
            block,
            Groups {
                quants,
                scales,
                minimums,
            },
        );
        for (at, (value, quant)) in out.iter_mut().zip(&*quants).enumerate() {
            *value = scales[at / group] * f32::from(*quant) + minimums[at / group];
        }
    }
}

fn half_at(block: &[u8], at: usize) -> f32 {
    f16::from_le_bytes([block[at], block[at + 1]]).to_f32()
}

/// Low halves of 16 bytes are elements 0 to 15, high halves 16 to 31.
fn nibbles(packed: &[u8], quants: &mut [u8]) {
    let (low, high) = quants.split_at_mut(packed.len());
    for ((low, high), byte) in low.iter_mut().zip(high).zip(packed) {
        *low = byte & 15;
        *high = byte >> 4;
    }
}

/// Adds a fifth bit to 32 quants: bit `i` of `bits` belongs to element `i`.
fn fifth_bits(bits: &[u8], quants: &mut [u8]) {
    let bits = u32::from_le_bytes([bits[0], bits[1], bits[2], bits[3]]);
    for (at, quant) in quants.iter_mut().enumerate() {
        *quant |= ((bits >> at & 1) as u8) << 4;
    }
}

fn read_q4_0(block: &[u8], groups: &mut Groups<'_>) {
    let scale = half_at(block, 0);
    groups.scales[0] = scale;
    groups.minimums[0] = -8.0 * scale;
    nibbles(&block[2..18], groups.quants);
}

fn read_q4_1(block: &[u8], groups: &mut Groups<'_>) {
    groups.scales[0] = half_at(block, 0);
    groups.minimums[0] = half_at(block, 2);
    nibbles(&block[4..20], groups.quants);
}

fn read_q5_0(block: &[u8], groups: &mut Groups<'_>) {
    let scale = half_at(block, 0);
    groups.scales[0] = scale;
    groups.minimums[0] = -16.0 * scale;
    nibbles(&block[6..22], groups.quants);
    fifth_bits(&block[2..6], groups.quants);
}

fn read_q5_1(block: &[u8], groups: &mut Groups<'_>) {
    groups.scales[0] = half_at(block, 0);
    groups.minimums[0] = half_at(block, 2);
    nibbles(&block[8..24], groups.quants);
    fifth_bits(&block[4..8], groups.quants);
}

fn read_q8_0(block: &[u8], groups: &mut Groups<'_>) {
    let scale = half_at(block, 0);
    groups.scales[0] = scale;
    groups.minimums[0] = -128.0 * scale;
    for (quant, byte) in groups.quants.iter_mut().zip(&block[2..34]) {
        *quant = byte ^ 128;
    }
}

/// The eight 6-bit scales and minimums of a K block, packed in 12 bytes after its two f16.
fn k_scales(block: &[u8], groups: &mut Groups<'_>) {
    let (scale, minimum) = (half_at(block, 0), half_at(block, 2));
    let packed = &block[4..16];
    for group in 0..8 {
        let (s, m) = if group < 4 {
            (packed[group] & 63, packed[group + 4] & 63)
        } else {
            let both = packed[group + 4];
            (
                both & 15 | packed[group - 4] >> 6 << 4,
                both >> 4 | packed[group] >> 6 << 4,
            )
        };
        groups.scales[group] = scale * f32::from(s);
        groups.minimums[group] = -(minimum * f32::from(m));
    }
}

/// 32 bytes hold two groups of a K block: low halves the first, high halves the second.
fn k_nibbles(packed: &[u8], quants: &mut [u8]) {
    for (packed, quants) in packed.chunks_exact(32).zip(quants.chunks_exact_mut(64)) {
        nibbles(packed, quants);
    }
}

fn read_q4_k(block: &[u8], groups: &mut Groups<'_>) {
    k_scales(block, groups);
    k_nibbles(&block[16..144], groups.quants);
}

fn read_q5_k(block: &[u8], groups: &mut Groups<'_>) {
    k_scales(block, groups);
    k_nibbles(&block[48..176], groups.quants);
    let fifth = &block[16..48];
    for (group, quants) in groups.quants.chunks_exact_mut(32).enumerate() {
        for (quant, bits) in quants.iter_mut().zip(fifth) {
            *quant |= (bits >> group & 1) << 4;
        }
    }
}

fn read_q6_k(block: &[u8], groups: &mut Groups<'_>) {
    let scale = half_at(block, 208);
    for (at, small) in block[192..208].iter().enumerate() {
        let scale = scale * f32::from(small.cast_signed());
        groups.scales[at] = scale;
        groups.minimums[at] = -32.0 * scale;
    }
    let halves = block[..128]
        .chunks_exact(64)
        .zip(block[128..192].chunks_exact(32));
    for ((low, high), quants) in halves.zip(groups.quants.chunks_exact_mut(128)) {
        for at in 0..32 {
            let (first, second, upper) = (low[at], low[at + 32], high[at]);
            quants[at] = first & 15 | (upper & 3) << 4;
            quants[at + 32] = second & 15 | (upper >> 2 & 3) << 4;
            quants[at + 64] = first >> 4 | (upper >> 4 & 3) << 4;
            quants[at + 96] = second >> 4 | upper >> 6 << 4;
        }
    }
}
