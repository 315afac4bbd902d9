use super::*;
use sha2::{Digest, Sha256};

/// Pixels that every language makes alike.
fn pixels(width: usize, height: usize) -> Vec<u8> {
    (0..width * height * 3)
        .map(|place| ((place * 7919 + place * place * 31 + 13) % 256) as u8)
        .collect()
}

#[test]
fn pictures_are_those_of_libjpeg_byte_for_byte() {
    // PIL.Image.fromarray(pixels).save(buffer, format="jpeg", quality=85), Pillow 13.0.0
    let goldens = [
        (16, 16, 814, "357e9e296bddfe85"),
        (8, 8, 708, "6203f2d270d8d013"),
        (1, 1, 633, "6bb3bea2c6895edb"),
        (33, 17, 1159, "78660f76e440f696"),
        (64, 48, 2714, "8e3d8d546873e911"),
        (40, 24, 1445, "27efba9cbf0e3406"),
        (17, 33, 1172, "8b9bcf02ede244b2"),
        (100, 75, 6899, "9916b0268aaded35"),
        (31, 8, 852, "c99b166116e6d595"),
    ];
    for (width, height, length, digest) in goldens {
        let pixels = pixels(width, height);
        let bytes = encode(
            &Picture {
                width,
                height,
                pixels: &pixels,
            },
            85,
        );
        let found: String = crate::vocabulary::hexadecimal(&Sha256::digest(&bytes)[..8]);
        assert_eq!(
            (bytes.len(), found.as_str()),
            (length, digest),
            "{width}x{height}"
        );
    }
}
