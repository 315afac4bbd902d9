use half::{bf16, f16};

use super::{LANES, Simd};

/// Plain loops that the compiler may vectorise with whatever the target has.
#[derive(Clone, Copy)]
pub(super) struct Portable;

#[inline(always)]
fn each<A: Copy, B: Copy, C>(a: [A; LANES], b: [B; LANES], f: impl Fn(A, B) -> C) -> [C; LANES] {
    std::array::from_fn(|lane| f(a[lane], b[lane]))
}

/// The four products of bytes of one lane.
#[inline(always)]
fn products(bytes: i32, row: i32) -> i32 {
    let (bytes, row) = (bytes.to_le_bytes(), row.to_le_bytes());
    let product = |i: usize| i32::from(bytes[i]) * i32::from(row[i] as i8);
    product(0) + product(1) + product(2) + product(3)
}

/// Adds halves until one lane is left.
#[inline(always)]
fn fold(mut lanes: [f32; LANES], f: impl Fn(f32, f32) -> f32) -> f32 {
    let mut width = LANES / 2;
    while width > 0 {
        for lane in 0..width {
            lanes[lane] = f(lanes[lane], lanes[lane + width]);
        }
        width /= 2;
    }
    lanes[0]
}

impl Simd for Portable {
    type F = [f32; LANES];
    type I = [i32; LANES];
    const ROWS: usize = 4;
    const CENTRE: i32 = 0;
    const PAIRS: usize = 1;

    #[inline(always)]
    fn splat(self, value: f32) -> Self::F {
        [value; LANES]
    }
    #[inline(always)]
    fn load(self, from: &[f32; LANES]) -> Self::F {
        *from
    }
    #[inline(always)]
    fn store(self, value: Self::F, to: &mut [f32; LANES]) {
        *to = value;
    }
    #[inline(always)]
    fn load_f16(self, from: &[f16; LANES]) -> Self::F {
        from.map(f16::to_f32)
    }
    #[inline(always)]
    fn store_f16(self, value: Self::F, to: &mut [f16; LANES]) {
        *to = value.map(f16::from_f32);
    }
    #[inline(always)]
    fn load_bf16(self, from: &[bf16; LANES]) -> Self::F {
        from.map(|x| f32::from_bits(u32::from(x.to_bits()) << 16))
    }
    #[inline(always)]
    fn load_i8(self, from: &[i8; LANES]) -> Self::F {
        from.map(f32::from)
    }

    #[inline(always)]
    fn add(self, a: Self::F, b: Self::F) -> Self::F {
        each(a, b, |a, b| a + b)
    }
    #[inline(always)]
    fn sub(self, a: Self::F, b: Self::F) -> Self::F {
        each(a, b, |a, b| a - b)
    }
    #[inline(always)]
    fn mul(self, a: Self::F, b: Self::F) -> Self::F {
        each(a, b, |a, b| a * b)
    }
    #[inline(always)]
    fn div(self, a: Self::F, b: Self::F) -> Self::F {
        each(a, b, |a, b| a / b)
    }
    #[inline(always)]
    fn max(self, a: Self::F, b: Self::F) -> Self::F {
        each(a, b, |a, b| if a > b { a } else { b })
    }
    #[inline(always)]
    fn min(self, a: Self::F, b: Self::F) -> Self::F {
        each(a, b, |a, b| if a < b { a } else { b })
    }
    #[inline(always)]
    fn mul_add(self, a: Self::F, b: Self::F, c: Self::F) -> Self::F {
        // Without the instruction a fused product is a library call: two roundings are the lesser evil.
        std::array::from_fn(|lane| a[lane] * b[lane] + c[lane])
    }
    #[inline(always)]
    fn sum(self, a: Self::F) -> f32 {
        fold(a, |a, b| a + b)
    }
    #[inline(always)]
    fn largest(self, a: Self::F) -> f32 {
        fold(a, |a, b| if a > b { a } else { b })
    }
    #[inline(always)]
    fn keep_at_least(self, value: Self::F, x: Self::F, bound: Self::F) -> Self::F {
        std::array::from_fn(|lane| {
            if x[lane] >= bound[lane] {
                value[lane]
            } else {
                0.0
            }
        })
    }
    #[inline(always)]
    fn at_least(self, a: Self::F, b: Self::F) -> u32 {
        (0..LANES).fold(0, |mask, lane| mask | u32::from(a[lane] >= b[lane]) << lane)
    }
    #[inline(always)]
    fn sums(self, rows: [Self::F; LANES]) -> Self::F {
        rows.map(|row| self.sum(row))
    }

    #[inline(always)]
    fn splat_int(self, value: i32) -> Self::I {
        [value; LANES]
    }
    #[inline(always)]
    fn load_int(self, from: &[i32; LANES]) -> Self::I {
        *from
    }
    #[inline(always)]
    fn store_int(self, value: Self::I, to: &mut [i32; LANES]) {
        *to = value;
    }
    #[inline(always)]
    fn add_int(self, a: Self::I, b: Self::I) -> Self::I {
        each(a, b, i32::wrapping_add)
    }
    #[inline(always)]
    fn sub_int(self, a: Self::I, b: Self::I) -> Self::I {
        each(a, b, i32::wrapping_sub)
    }
    #[inline(always)]
    fn and(self, a: Self::I, b: Self::I) -> Self::I {
        each(a, b, |a, b| a & b)
    }
    #[inline(always)]
    fn xor(self, a: Self::I, b: Self::I) -> Self::I {
        each(a, b, |a, b| a ^ b)
    }
    #[inline(always)]
    fn shift_left(self, a: Self::I, bits: u32) -> Self::I {
        a.map(|a| a << bits)
    }
    #[inline(always)]
    fn shift_right(self, a: Self::I, bits: u32) -> Self::I {
        a.map(|a| ((a as u32) >> bits) as i32)
    }
    #[inline(always)]
    fn mul_wide(self, a: Self::I, b: Self::I) -> (Self::I, Self::I) {
        let wide = each(a, b, |a, b| u64::from(a as u32) * u64::from(b as u32));
        (wide.map(|w| (w >> 32) as i32), wide.map(|w| w as i32))
    }
    #[inline(always)]
    fn round(self, a: Self::F) -> Self::I {
        a.map(|a| a.round_ties_even() as i32)
    }
    #[inline(always)]
    fn float(self, a: Self::I) -> Self::F {
        a.map(|a| a as f32)
    }
    #[inline(always)]
    fn bits(self, a: Self::F) -> Self::I {
        a.map(|a| a.to_bits() as i32)
    }
    #[inline(always)]
    fn float_bits(self, a: Self::I) -> Self::F {
        a.map(|a| f32::from_bits(a as u32))
    }

    #[inline(always)]
    fn dot4(self, sums: Self::I, bytes: Self::I, row: i32) -> Self::I {
        each(sums, bytes, |sum, bytes| sum + products(bytes, row))
    }
    #[inline(always)]
    fn end_dot4(self, sums: Self::I) -> Self::I {
        sums
    }
    #[inline(always)]
    fn dot7(self, sums: Self::I, bytes: Self::I, row: i32) -> Self::I {
        self.dot4(sums, bytes, row)
    }
    #[inline(always)]
    fn dot8(self, sums: Self::I, bytes: Self::I, row: i32) -> Self::I {
        self.dot4(sums, bytes, row)
    }
}
