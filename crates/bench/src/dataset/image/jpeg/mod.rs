//! Baseline JPEG, byte for byte as libjpeg writes it at its defaults.
//!
//! The pictures of a benchmark must be those of the reference for the same seed; only the integer
//! arithmetic of the usual library gives the same bytes.

mod dct;
mod huffman;
mod planes;
mod tables;

use huffman::{BitWriter, Code};
use planes::{Plane, planes};
use tables::{CHROMA, Kind, LUMA, ZIGZAG};

/// A picture of `width` by `height` pixels, three bytes each.
pub(super) struct Picture<'a> {
    pub(super) width: usize,
    pub(super) height: usize,
    pub(super) pixels: &'a [u8],
}

/// Encodes a picture at this quality, chroma at half resolution.
pub(super) fn encode(picture: &Picture<'_>, quality: u32) -> Vec<u8> {
    let quants = [
        tables::scaled(&LUMA, quality),
        tables::scaled(&CHROMA, quality),
    ];
    let codes = [
        [Code::of(Kind::DcLuma), Code::of(Kind::AcLuma)],
        [Code::of(Kind::DcChroma), Code::of(Kind::AcChroma)],
    ];
    let mut out = head(picture, &quants);
    let all = planes(picture);
    let mut writer = BitWriter::new(&mut out);
    let mut before = [0_i32; 3];
    let (columns, rows) = (picture.width.div_ceil(16), picture.height.div_ceil(16));
    for row in 0..rows {
        for column in 0..columns {
            for (place, plane) in all.iter().enumerate() {
                let table = usize::from(place > 0);
                for block in unit(plane, &quants[table], column, row) {
                    writer.block(&block, before[place], &codes[table]);
                    before[place] = block[0];
                }
            }
        }
    }
    writer.finish();
    out.extend_from_slice(&[0xff, 0xd9]);
    out
}

/// The quantised blocks of one plane in one unit of 16 by 16 pixels.
///
/// Blocks beyond the plane's edge repeat the level of the one before and nothing else.
fn unit(plane: &Plane, quant: &[u16; 64], column: usize, row: usize) -> Vec<[i32; 64]> {
    let side = plane.blocks_per_unit;
    let mut blocks: Vec<[i32; 64]> = Vec::with_capacity(side * side);
    for down in 0..side {
        for right in 0..side {
            let (x, y) = (column * side + right, row * side + down);
            let block = if x < plane.columns && y < plane.rows {
                dct::transform(&plane.block(x, y), quant)
            } else {
                let mut level = [0; 64];
                level[0] = blocks.last().map_or(0, |block| block[0]);
                level
            };
            blocks.push(block);
        }
    }
    blocks
}

fn head(picture: &Picture<'_>, quants: &[[u16; 64]; 2]) -> Vec<u8> {
    let mut out = vec![0xff, 0xd8];
    let mut segment = |marker: u8, content: &[u8]| {
        out.extend_from_slice(&[0xff, marker]);
        out.extend_from_slice(&(content.len() as u16 + 2).to_be_bytes());
        out.extend_from_slice(content);
    };
    segment(0xe0, b"JFIF\0\x01\x01\0\0\x01\0\x01\0\0");
    for (place, quant) in quants.iter().enumerate() {
        let mut content = vec![place as u8];
        content.extend(ZIGZAG.iter().map(|at| quant[*at] as u8));
        segment(0xdb, &content);
    }
    let [high, low] = (picture.height as u16).to_be_bytes();
    let [wide, narrow] = (picture.width as u16).to_be_bytes();
    let frame = [
        8, high, low, wide, narrow, 3, 1, 0x22, 0, 2, 0x11, 1, 3, 0x11, 1,
    ];
    segment(0xc0, &frame);
    for (class, kind) in [
        (0x00, Kind::DcLuma),
        (0x10, Kind::AcLuma),
        (0x01, Kind::DcChroma),
        (0x11, Kind::AcChroma),
    ] {
        let (counts, values) = kind.table();
        let mut content = vec![class];
        content.extend_from_slice(counts);
        content.extend_from_slice(values);
        segment(0xc4, &content);
    }
    segment(0xda, &[3, 1, 0x00, 2, 0x11, 3, 0x11, 0, 63, 0]);
    out
}

#[cfg(test)]
mod tests;
