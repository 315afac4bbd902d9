//! PNG without compression: random pixels do not get smaller anyway.

use super::jpeg::Picture;

const LONGEST_PIECE: usize = 65_535;

/// Encodes a picture as a PNG of stored rows.
pub(super) fn encode(picture: &Picture<'_>) -> Vec<u8> {
    let mut rows = Vec::with_capacity(picture.pixels.len() + picture.height);
    for row in picture.pixels.chunks_exact(picture.width * 3) {
        rows.push(0);
        rows.extend_from_slice(row);
    }
    let mut head = Vec::new();
    head.extend_from_slice(&(picture.width as u32).to_be_bytes());
    head.extend_from_slice(&(picture.height as u32).to_be_bytes());
    head.extend_from_slice(&[8, 2, 0, 0, 0]);
    let mut out = b"\x89PNG\r\n\x1a\n".to_vec();
    chunk(&mut out, *b"IHDR", &head);
    chunk(&mut out, *b"IDAT", &stored(&rows));
    chunk(&mut out, *b"IEND", &[]);
    out
}

/// A zlib stream of stored pieces.
fn stored(bytes: &[u8]) -> Vec<u8> {
    let mut out = vec![0x78, 0x01];
    let mut pieces = bytes.chunks(LONGEST_PIECE).peekable();
    while let Some(piece) = pieces.next() {
        out.push(u8::from(pieces.peek().is_none()));
        out.extend_from_slice(&(piece.len() as u16).to_le_bytes());
        out.extend_from_slice(&(!(piece.len() as u16)).to_le_bytes());
        out.extend_from_slice(piece);
    }
    let (mut low, mut high) = (1_u32, 0_u32);
    for byte in bytes {
        low = (low + u32::from(*byte)) % 65_521;
        high = (high + low) % 65_521;
    }
    out.extend_from_slice(&((high << 16) | low).to_be_bytes());
    out
}

fn chunk(out: &mut Vec<u8>, kind: [u8; 4], content: &[u8]) {
    out.extend_from_slice(&(content.len() as u32).to_be_bytes());
    out.extend_from_slice(&kind);
    out.extend_from_slice(content);
    let mut check = u32::MAX;
    for byte in kind.iter().chain(content) {
        check ^= u32::from(*byte);
        for _ in 0..8 {
            check = if check & 1 == 1 {
                (check >> 1) ^ 0xedb8_8320
            } else {
                check >> 1
            };
        }
    }
    out.extend_from_slice(&(!check).to_be_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_picture_is_a_valid_file() {
        let picture = Picture {
            width: 2,
            height: 1,
            pixels: &[1, 2, 3, 4, 5, 6],
        };
        let bytes = encode(&picture);
        assert_eq!(&bytes[..8], b"\x89PNG\r\n\x1a\n");
        // the checks of the three chunks, as zlib and every reader compute them
        assert_eq!(&bytes[29..33], &[0x7b, 0x40, 0xe8, 0xdd]);
        assert_eq!(&bytes[bytes.len() - 4..], &[0xae, 0x42, 0x60, 0x82]);
    }
}
