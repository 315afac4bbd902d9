#[allow(
    clippy::wildcard_imports,
    reason = "intrinsics are many and carry their own prefix"
)]
use std::arch::x86_64::*;

use half::{bf16, f16};

use super::{LANES, Simd, Vectorised};

/// AVX-512 with byte dot products: a lane is a lane.
#[derive(Clone, Copy)]
pub(super) struct Avx512(());

/// Runs a kernel where these instructions may be used.
///
/// # Safety
/// The machine must have the features.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma,f16c")]
pub(super) unsafe fn enter<V: Vectorised>(kernel: V) -> V::Output {
    kernel.run(Avx512(()))
}

/// An intrinsic without memory operands, or with one that a reference proves.
macro_rules! with_token {
    ($call:expr) => {
        // SAFETY: `self` exists only inside `enter`; references are valid for their whole type.
        unsafe { $call }
    };
}

impl Avx512 {
    /// a + b, halves of each crossed: `[a0+a1, b0+b1]` of 256-bit halves.
    #[inline(always)]
    fn fold_halves(self, a: __m512, b: __m512) -> __m512 {
        let lower = with_token!(_mm512_shuffle_f32x4::<0b01_00_01_00>(a, b));
        let upper = with_token!(_mm512_shuffle_f32x4::<0b11_10_11_10>(a, b));
        self.add(lower, upper)
    }

    /// As [`Self::fold_halves`] for 128-bit quarters within each half.
    #[inline(always)]
    fn fold_quarters(self, a: __m512, b: __m512) -> __m512 {
        let even = with_token!(_mm512_shuffle_f32x4::<0b10_00_10_00>(a, b));
        let odd = with_token!(_mm512_shuffle_f32x4::<0b11_01_11_01>(a, b));
        self.add(even, odd)
    }

    /// As [`Self::fold_halves`] for 64-bit parts of each quarter.
    #[inline(always)]
    fn fold_pairs(self, a: __m512, b: __m512) -> __m512 {
        let lower = with_token!(_mm512_shuffle_ps::<0b01_00_01_00>(a, b));
        let upper = with_token!(_mm512_shuffle_ps::<0b11_10_11_10>(a, b));
        self.add(lower, upper)
    }

    /// As [`Self::fold_halves`] for neighbours.
    #[inline(always)]
    fn fold_neighbours(self, a: __m512, b: __m512) -> __m512 {
        let even = with_token!(_mm512_shuffle_ps::<0b10_00_10_00>(a, b));
        let odd = with_token!(_mm512_shuffle_ps::<0b11_01_11_01>(a, b));
        self.add(even, odd)
    }
}

impl Simd for Avx512 {
    type F = __m512;
    type I = __m512i;
    const ROWS: usize = 8;
    const CENTRE: i32 = 0;
    const PAIRS: usize = 3;

    #[inline(always)]
    fn splat(self, value: f32) -> Self::F {
        with_token!(_mm512_set1_ps(value))
    }
    #[inline(always)]
    fn load(self, from: &[f32; LANES]) -> Self::F {
        with_token!(_mm512_loadu_ps(from.as_ptr()))
    }
    #[inline(always)]
    fn store(self, value: Self::F, to: &mut [f32; LANES]) {
        with_token!(_mm512_storeu_ps(to.as_mut_ptr(), value));
    }
    #[inline(always)]
    fn load_f16(self, from: &[f16; LANES]) -> Self::F {
        with_token!(_mm512_cvtph_ps(_mm256_loadu_si256(from.as_ptr().cast())))
    }
    #[inline(always)]
    fn store_f16(self, value: Self::F, to: &mut [f16; LANES]) {
        with_token!(_mm256_storeu_si256(
            to.as_mut_ptr().cast(),
            _mm512_cvtps_ph::<{ _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC }>(value)
        ));
    }
    #[inline(always)]
    fn load_bf16(self, from: &[bf16; LANES]) -> Self::F {
        with_token!(_mm512_castsi512_ps(_mm512_slli_epi32::<16>(
            _mm512_cvtepu16_epi32(_mm256_loadu_si256(from.as_ptr().cast()))
        )))
    }
    #[inline(always)]
    fn load_i8(self, from: &[i8; LANES]) -> Self::F {
        with_token!(_mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128(
            from.as_ptr().cast()
        ))))
    }

    #[inline(always)]
    fn add(self, a: Self::F, b: Self::F) -> Self::F {
        with_token!(_mm512_add_ps(a, b))
    }
    #[inline(always)]
    fn sub(self, a: Self::F, b: Self::F) -> Self::F {
        with_token!(_mm512_sub_ps(a, b))
    }
    #[inline(always)]
    fn mul(self, a: Self::F, b: Self::F) -> Self::F {
        with_token!(_mm512_mul_ps(a, b))
    }
    #[inline(always)]
    fn div(self, a: Self::F, b: Self::F) -> Self::F {
        with_token!(_mm512_div_ps(a, b))
    }
    #[inline(always)]
    fn max(self, a: Self::F, b: Self::F) -> Self::F {
        with_token!(_mm512_max_ps(a, b))
    }
    #[inline(always)]
    fn min(self, a: Self::F, b: Self::F) -> Self::F {
        with_token!(_mm512_min_ps(a, b))
    }
    #[inline(always)]
    fn mul_add(self, a: Self::F, b: Self::F, c: Self::F) -> Self::F {
        with_token!(_mm512_fmadd_ps(a, b, c))
    }
    #[inline(always)]
    fn sum(self, a: Self::F) -> f32 {
        let a = self.fold_halves(a, a);
        let a = self.fold_quarters(a, a);
        let a = self.fold_pairs(a, a);
        let a = self.fold_neighbours(a, a);
        with_token!(_mm512_cvtss_f32(a))
    }
    #[inline(always)]
    fn largest(self, a: Self::F) -> f32 {
        with_token!(_mm512_reduce_max_ps(a))
    }
    #[inline(always)]
    fn keep_at_least(self, value: Self::F, x: Self::F, bound: Self::F) -> Self::F {
        with_token!(_mm512_maskz_mov_ps(
            _mm512_cmp_ps_mask::<_CMP_GE_OQ>(x, bound),
            value
        ))
    }
    #[inline(always)]
    fn at_least(self, a: Self::F, b: Self::F) -> u32 {
        u32::from(with_token!(_mm512_cmp_ps_mask::<_CMP_GE_OQ>(a, b)))
    }
    #[inline(always)]
    fn sums(self, rows: [Self::F; LANES]) -> Self::F {
        // Rows are paired so that lane i ends with row i. No closures: they would not be inlined.
        let mut halves = [rows[0]; 8];
        for (i, half) in halves.iter_mut().enumerate() {
            let row = i % 4 + i / 4 * 8;
            *half = self.fold_halves(rows[row], rows[row + 4]);
        }
        let mut quarters = [rows[0]; 4];
        for (i, quarter) in quarters.iter_mut().enumerate() {
            *quarter = self.fold_quarters(halves[i], halves[i + 4]);
        }
        let mut pairs = [rows[0]; 2];
        for (i, pair) in pairs.iter_mut().enumerate() {
            *pair = self.fold_pairs(quarters[2 * i], quarters[2 * i + 1]);
        }
        self.fold_neighbours(pairs[0], pairs[1])
    }

    #[inline(always)]
    fn splat_int(self, value: i32) -> Self::I {
        with_token!(_mm512_set1_epi32(value))
    }
    #[inline(always)]
    fn load_int(self, from: &[i32; LANES]) -> Self::I {
        with_token!(_mm512_loadu_si512(from.as_ptr().cast()))
    }
    #[inline(always)]
    fn store_int(self, value: Self::I, to: &mut [i32; LANES]) {
        with_token!(_mm512_storeu_si512(to.as_mut_ptr().cast(), value));
    }
    #[inline(always)]
    fn add_int(self, a: Self::I, b: Self::I) -> Self::I {
        with_token!(_mm512_add_epi32(a, b))
    }
    #[inline(always)]
    fn sub_int(self, a: Self::I, b: Self::I) -> Self::I {
        with_token!(_mm512_sub_epi32(a, b))
    }
    #[inline(always)]
    fn and(self, a: Self::I, b: Self::I) -> Self::I {
        with_token!(_mm512_and_si512(a, b))
    }
    #[inline(always)]
    fn xor(self, a: Self::I, b: Self::I) -> Self::I {
        with_token!(_mm512_xor_si512(a, b))
    }
    #[inline(always)]
    fn shift_left(self, a: Self::I, bits: u32) -> Self::I {
        with_token!(_mm512_sllv_epi32(a, _mm512_set1_epi32(bits as i32)))
    }
    #[inline(always)]
    fn shift_right(self, a: Self::I, bits: u32) -> Self::I {
        with_token!(_mm512_srlv_epi32(a, _mm512_set1_epi32(bits as i32)))
    }
    #[inline(always)]
    fn mul_wide(self, a: Self::I, b: Self::I) -> (Self::I, Self::I) {
        const ODD: u16 = 0xAAAA;
        with_token!({
            let even = _mm512_mul_epu32(a, b);
            let odd = _mm512_mul_epu32(_mm512_srli_epi64::<32>(a), _mm512_srli_epi64::<32>(b));
            let high = _mm512_mask_blend_epi32(ODD, _mm512_srli_epi64::<32>(even), odd);
            (high, _mm512_mullo_epi32(a, b))
        })
    }
    #[inline(always)]
    fn round(self, a: Self::F) -> Self::I {
        with_token!(_mm512_cvtps_epi32(a))
    }
    #[inline(always)]
    fn float(self, a: Self::I) -> Self::F {
        with_token!(_mm512_cvtepi32_ps(a))
    }
    #[inline(always)]
    fn bits(self, a: Self::F) -> Self::I {
        with_token!(_mm512_castps_si512(a))
    }
    #[inline(always)]
    fn float_bits(self, a: Self::I) -> Self::F {
        with_token!(_mm512_castsi512_ps(a))
    }

    #[inline(always)]
    fn dot4(self, sums: Self::I, bytes: Self::I, row: i32) -> Self::I {
        with_token!(_mm512_dpbusd_epi32(sums, bytes, _mm512_set1_epi32(row)))
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
