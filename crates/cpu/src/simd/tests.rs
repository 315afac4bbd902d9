#![expect(clippy::float_cmp, reason = "the claims are about bits")]

use super::*;

macro_rules! at_every_level {
    ($(#[$meta:meta])* fn $name:ident($s:ident) $body:block) => {
        $(#[$meta])*
        #[test]
        fn $name() {
            struct Body;
            impl Vectorised for Body {
                type Output = ();
                #[inline(always)]
                fn run<S: Simd>(self, $s: S) $body
            }
            for level in Level::available() {
                level.run(Body);
            }
        }
    };
}

fn lanes(f: impl Fn(usize) -> f32) -> [f32; LANES] {
    std::array::from_fn(f)
}

fn out<S: Simd>(s: S, value: S::F) -> [f32; LANES] {
    let mut lanes = [0.0; LANES];
    s.store(value, &mut lanes);
    lanes
}

at_every_level! {
    fn sums_fold_halves_in_one_order(s) {
        let rows: [[f32; LANES]; LANES] = std::array::from_fn(|r| lanes(|i| ((r * 37 + i * 11) % 97) as f32 * 0.37 - 9.0));
        let all = out(s, s.sums(rows.map(|row| s.load(&row))));
        for (row, sum) in rows.iter().zip(all) {
            assert_eq!(s.sum(s.load(row)).to_bits(), sum.to_bits());
            let (mut folded, mut width) = (*row, LANES / 2);
            while width > 0 {
                for i in 0..width { folded[i] += folded[i + width]; }
                width /= 2;
            }
            assert_eq!(folded[0].to_bits(), sum.to_bits());
        }
        assert_eq!(s.largest(s.load(&rows[3])), rows[3].iter().copied().fold(f32::MIN, f32::max));
    }
}

at_every_level! {
    fn exp_is_close_and_vanishes_below_its_range(s) {
        for step in -880..880 {
            let x = step as f32 * 0.1 + 0.037;
            let got = out(s, math::exp(s, s.splat(x)))[0];
            let want = f64::from(x).exp();
            if x < -87.3 {
                assert_eq!(got, 0.0);
            } else {
                assert!((f64::from(got) / want - 1.0).abs() < 3e-7, "exp({x}) = {got}, not {want}");
            }
        }
        assert_eq!(out(s, math::exp(s, s.splat(0.0)))[0], 1.0);
        assert_eq!(out(s, math::exp(s, s.splat(f32::NEG_INFINITY)))[0], 0.0);
    }
}

at_every_level! {
    fn ln_and_tanh_are_close(s) {
        for step in 1..4000 {
            let x = step as f32 / 4001.0;
            for x in [x, x * x * x, 1.0 - x * 1e-4, 1.0 / x] {
                let got = f64::from(out(s, math::ln(s, s.splat(x)))[0]);
                let want = f64::from(x).ln();
                assert!((got - want).abs() <= want.abs() * 3e-7, "ln({x}) = {got}, not {want}");
            }
            let x = x * 40.0 - 20.0;
            let got = f64::from(out(s, math::tanh(s, s.splat(x)))[0]);
            assert!((got - f64::from(x).tanh()).abs() < 3e-7, "tanh({x}) = {got}");
        }
    }
}

at_every_level! {
    fn byte_products_are_exact_at_their_extremes(s) {
        let row = i32::from_le_bytes([127, 127, 127u8.wrapping_neg(), 127]);
        for byte in [0u8, 1, 15, 127, 128, 255] {
            let bytes = i32::from_le_bytes([byte, byte, byte / 2, byte]);
            let want = 127 * 3 * i32::from(byte) - 127 * i32::from(byte / 2);
            let mut ints = [0; LANES];
            s.store_int(s.dot8(s.splat_int(5), s.splat_int(bytes), row), &mut ints);
            let of_row = 127 + 127 - 127 + 127;
            assert_eq!(ints, [want + 5 - S::CENTRE * of_row; LANES]);
            if byte < 128 {
                s.store_int(s.dot7(s.splat_int(5), s.splat_int(bytes), row), &mut ints);
                assert_eq!(ints, [want + 5; LANES]);
            }
            if byte < 16 {
                let mut sums = s.splat_int(0);
                for _ in 0..8 { sums = s.dot4(sums, s.splat_int(bytes), row); }
                s.store_int(s.end_dot4(sums), &mut ints);
                assert_eq!(ints, [want * 8; LANES]);
            }
        }
    }
}

at_every_level! {
    fn wide_products_comparisons_and_halves_agree_with_scalars(s) {
        let a: [i32; LANES] = std::array::from_fn(|i| (i as i32 + 1).wrapping_mul(0x1357_9BDF));
        let b: [i32; LANES] = std::array::from_fn(|i| (i as i32 + 3).wrapping_mul(0x2468_ACE1));
        let (mut high, mut low) = ([0; LANES], [0; LANES]);
        let (h, l) = s.mul_wide(s.load_int(&a), s.load_int(&b));
        s.store_int(h, &mut high);
        s.store_int(l, &mut low);
        for i in 0..LANES {
            let wide = u64::from(a[i] as u32) * u64::from(b[i] as u32);
            assert_eq!((high[i] as u32, low[i] as u32), ((wide >> 32) as u32, wide as u32));
        }
        let x = lanes(|i| i as f32 - 7.5);
        assert_eq!(s.at_least(s.load(&x), s.splat(0.5)), 0xFF00);
        let mut halves = [f16::ZERO; LANES];
        s.store_f16(s.load(&lanes(|i| i as f32 * 0.3337)), &mut halves);
        assert_eq!(halves, std::array::from_fn(|i| f16::from_f32(i as f32 * 0.3337)));
        assert_eq!(out(s, s.load_f16(&halves)), halves.map(f16::to_f32));
        let brains: [bf16; LANES] = std::array::from_fn(|i| bf16::from_f32(i as f32 * -1.7));
        assert_eq!(out(s, s.load_bf16(&brains)), brains.map(bf16::to_f32));
        let bytes: [i8; LANES] = std::array::from_fn(|i| (i as i32 * 17 - 128) as i8);
        assert_eq!(out(s, s.load_i8(&bytes)), bytes.map(f32::from));
        assert_eq!(out(s, s.max(s.splat(f32::NAN), s.splat(2.0)))[0], 2.0);
        assert_eq!(out(s, s.keep_at_least(s.splat(3.0), s.load(&x), s.splat(0.0)))[7..9], [0.0, 3.0]);
    }
}
