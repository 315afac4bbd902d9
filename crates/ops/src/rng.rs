//! Counter-based random numbers: the same bits on every device, in any batch, in any order.

/// Four 32-bit words from a 64-bit key and a 64-bit counter (Philox 4×32, ten rounds).
pub fn philox(key: u64, counter: u64, stream: u64) -> [u32; 4] {
    const MULTIPLIERS: [u64; 2] = [0xD251_1F53, 0xCD9E_8D57];
    const WEYL: [u32; 2] = [0x9E37_79B9, 0xBB67_AE85];
    let mut x = [
        counter as u32,
        (counter >> 32) as u32,
        stream as u32,
        (stream >> 32) as u32,
    ];
    let mut k = [key as u32, (key >> 32) as u32];
    for _ in 0..10 {
        let a = MULTIPLIERS[0] * u64::from(x[0]);
        let b = MULTIPLIERS[1] * u64::from(x[2]);
        x = [
            (b >> 32) as u32 ^ x[1] ^ k[0],
            b as u32,
            (a >> 32) as u32 ^ x[3] ^ k[1],
            a as u32,
        ];
        k = [k[0].wrapping_add(WEYL[0]), k[1].wrapping_add(WEYL[1])];
    }
    x
}

/// A number in the open interval (0, 1) for token `token` at output position `position` of the request keyed `seed`.
pub fn uniform(seed: u64, position: u32, token: u32) -> f32 {
    let word = philox(seed, u64::from(position), u64::from(token / 4))[(token % 4) as usize];
    // 23 bits and a half: never 0, never 1 after rounding.
    ((word >> 9) as f32 + 0.5) * (1.0 / 8_388_608.0)
}

/// The Gumbel noise that makes an argmax a draw from the softmax.
pub fn gumbel(seed: u64, position: u32, token: u32) -> f32 {
    -(-uniform(seed, position, token).ln()).ln()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn philox_gives_the_published_vectors() {
        assert_eq!(
            philox(0, 0, 0),
            [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8]
        );
        let ones = u64::MAX;
        assert_eq!(
            philox(ones, ones, ones),
            [0x408f_276d, 0x41c8_3b0e, 0xa20b_c7c6, 0x6d54_51fd]
        );
    }

    #[test]
    fn uniform_numbers_stay_inside_the_open_interval_and_fill_it() {
        let mut buckets = [0u32; 16];
        for token in 0..16_000 {
            let u = uniform(7, 3, token);
            assert!(u > 0.0 && u < 1.0);
            buckets[(u * 16.0) as usize] += 1;
        }
        assert!(
            buckets.iter().all(|&n| (850..1150).contains(&n)),
            "{buckets:?}"
        );
    }
}
