//! Damage, from a seed.

/// Small, fast and the same everywhere.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    pub(crate) fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit.max(1) as u64) as usize
    }
}

/// Numbers that break careless arithmetic.
const NASTY: [u64; 12] = [
    0,
    1,
    7,
    0x7f,
    0xffff,
    0x7fff_ffff,
    0xffff_ffff,
    1 << 32,
    1 << 61,
    i64::MAX as u64,
    u64::MAX - 7,
    u64::MAX,
];

/// Damages a file in one to four places.
pub(crate) fn damage(whole: &[u8], random: &mut Random) -> Vec<u8> {
    let mut bytes = whole.to_vec();
    for _ in 0..=random.below(3) {
        damage_once(&mut bytes, random);
    }
    bytes
}

fn damage_once(bytes: &mut Vec<u8>, random: &mut Random) {
    if bytes.is_empty() {
        return;
    }
    let at = random.below(bytes.len());
    match random.below(7) {
        0 => bytes[at] = random.next() as u8,
        1 => bytes[at] ^= 1 << random.below(8),
        2 => bytes.truncate(at),
        3 => {
            let width = [1, 2, 4, 8][random.below(4)];
            let nasty = NASTY[random.below(NASTY.len())].to_le_bytes();
            for (byte, nasty) in bytes[at..].iter_mut().zip(&nasty[..width]) {
                *byte = *nasty;
            }
        }
        4 => {
            let end = (at + 1 + random.below(40)).min(bytes.len());
            bytes.drain(at..end);
        }
        5 => {
            let end = (at + 1 + random.below(40)).min(bytes.len());
            let copy = bytes[at..end].to_vec();
            let to = random.below(bytes.len());
            bytes.splice(to..to, copy);
        }
        _ => {
            let digits = [
                "0",
                "-1",
                "18446744073709551615",
                "1e99",
                "\"",
                "{",
                "[[",
                "9223372036854775807",
            ];
            let end = (at + random.below(4)).min(bytes.len());
            bytes.splice(at..end, digits[random.below(digits.len())].bytes());
        }
    }
}
