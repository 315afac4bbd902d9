//! The token with the largest sum of score and Gumbel noise.

use ops::rng;

use crate::simd::{LANES, Simd, Vectorised, math};

/// No noise is larger: −ln(−ln(1 − 2⁻²⁴)) is 16.64.
const MOST: f32 = 17.0;
/// How far the noise of lanes may be from the exact one.
const SLACK: f32 = 1e-3;
/// Tokens whose noise comes from one set of lanes: four words each.
const RUN: usize = 4 * LANES;

/// The best of some tokens, the lowest among equals; zero when there is none.
pub(super) fn noisiest(tokens: impl Iterator<Item = (f32, u32)>, seed: u64, position: u32) -> u32 {
    let mut best = (f32::NEG_INFINITY, 0);
    for (score, token) in tokens {
        if score + MOST >= best.0 {
            let noisy = score + rng::gumbel(seed, position, token);
            if noisy > best.0 || (noisy >= best.0 && token < best.1) {
                best = (noisy, token);
            }
        }
    }
    best.1
}

/// The best of all tokens: lanes find the few that come near, whose noise is then computed exactly.
pub(super) struct Noisiest<'a> {
    pub(super) scores: &'a [f32],
    pub(super) seed: u64,
    pub(super) position: u32,
}

impl Vectorised for Noisiest<'_> {
    type Output = u32;

    #[inline(always)]
    fn run<S: Simd>(self, s: S) -> u32 {
        let (runs, tail) = self.scores.as_chunks::<RUN>();
        let mut best = (f32::NEG_INFINITY, 0);
        for (index, run) in runs.iter().enumerate() {
            let (vectors, _) = run.as_chunks::<LANES>();
            let hope = s.splat(best.0 - MOST);
            let mut any = 0;
            for vector in vectors {
                any |= s.at_least(s.load(vector), hope);
            }
            if any == 0 {
                continue;
            }
            let noise = noise(s, self.seed, self.position, (index * LANES) as u32);
            for (part, (vector, noise)) in vectors.iter().zip(&noise).enumerate() {
                let noisy = s.add(s.load(vector), s.load(noise));
                let mut hits = s.at_least(noisy, s.splat(best.0 - SLACK));
                while hits != 0 {
                    let lane = hits.trailing_zeros() as usize;
                    hits &= hits - 1;
                    let token = (index * RUN + part * LANES + lane) as u32;
                    let exact = vector[lane] + rng::gumbel(self.seed, self.position, token);
                    if exact > best.0 {
                        best = (exact, token);
                    }
                }
            }
        }
        for (&score, token) in tail.iter().zip((runs.len() * RUN) as u32..) {
            let exact = score + rng::gumbel(self.seed, self.position, token);
            if exact > best.0 {
                best = (exact, token);
            }
        }
        best.1
    }
}

/// The noise of the 64 tokens from `4 × stream` on, about.
#[inline(always)]
fn noise<S: Simd>(s: S, seed: u64, position: u32, stream: u32) -> [[f32; LANES]; 4] {
    let words = words(s, seed, position, stream);
    let mut planes = [[0i32; LANES]; 4];
    for (plane, &word) in planes.iter_mut().zip(&words) {
        s.store_int(word, plane);
    }
    let mut noise = [[0.0; LANES]; 4];
    let (zero, half) = (s.splat(0.0), s.splat(0.5));
    for (part, noise) in noise.iter_mut().enumerate() {
        // Word w of lane l belongs to token 4 l + w.
        let mut mixed = [0; LANES];
        for (token, mixed) in mixed.iter_mut().enumerate() {
            *mixed = planes[token % 4][part * 4 + token / 4];
        }
        let bits = s.float(s.shift_right(s.load_int(&mixed), 9));
        let uniform = s.mul(s.add(bits, half), s.splat(1.0 / 8_388_608.0));
        let inner = s.sub(zero, math::ln(s, uniform));
        s.store(s.sub(zero, math::ln(s, inner)), noise);
    }
    noise
}

/// `rng::philox` for sixteen neighbouring streams.
#[inline(always)]
fn words<S: Simd>(s: S, seed: u64, position: u32, stream: u32) -> [S::I; 4] {
    let first = s.splat_int(0xD251_1F53_u32.cast_signed());
    let second = s.splat_int(0xCD9E_8D57_u32.cast_signed());
    let mut lanes = [0i32; LANES];
    for (lane, to) in lanes.iter_mut().enumerate() {
        *to = (stream + lane as u32).cast_signed();
    }
    let zero = s.splat_int(0);
    let mut x = [
        s.splat_int(position.cast_signed()),
        zero,
        s.load_int(&lanes),
        zero,
    ];
    let mut keys = [seed as u32, (seed >> 32) as u32];
    for _ in 0..10 {
        let (a_high, a_low) = s.mul_wide(first, x[0]);
        let (b_high, b_low) = s.mul_wide(second, x[2]);
        let key = [
            s.splat_int(keys[0].cast_signed()),
            s.splat_int(keys[1].cast_signed()),
        ];
        x = [
            s.xor(s.xor(b_high, x[1]), key[0]),
            b_low,
            s.xor(s.xor(a_high, x[3]), key[1]),
            a_low,
        ];
        keys = [
            keys[0].wrapping_add(0x9E37_79B9),
            keys[1].wrapping_add(0xBB67_AE85),
        ];
    }
    x
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simd::Level;

    struct Compare;

    impl Vectorised for Compare {
        type Output = ();

        #[inline(always)]
        fn run<S: Simd>(self, s: S) {
            for (seed, position, stream) in [(0, 0, 0), (u64::MAX, 77, 1600), (1 << 40, 3, 16)] {
                let lanes = noise(s, seed, position, stream);
                for (offset, &near) in lanes.as_flattened().iter().enumerate() {
                    let exact = rng::gumbel(seed, position, stream * 4 + offset as u32);
                    assert!((near - exact).abs() < SLACK / 10.0, "{near} is not {exact}");
                }
            }
        }
    }

    #[test]
    fn lanes_of_noise_are_close_to_the_exact_noise_of_their_tokens() {
        for level in Level::available() {
            level.run(Compare);
        }
    }
}
