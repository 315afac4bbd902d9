#[allow(
    clippy::wildcard_imports,
    reason = "intrinsics are many and carry their own prefix"
)]
use std::arch::x86_64::*;

use half::{bf16, f16};

use super::{LANES, Simd, Vectorised};

/// AVX2 with fused multiply-add: sixteen lanes are two registers.
#[derive(Clone, Copy)]
pub(super) struct Avx2(());

/// Runs a kernel where these instructions may be used.
///
/// # Safety
/// The machine must have the features.
#[target_feature(enable = "avx2,fma,f16c")]
pub(super) unsafe fn enter<V: Vectorised>(kernel: V) -> V::Output {
    kernel.run(Avx2(()))
}

/// Intrinsics on registers, or on memory that a reference proves.
macro_rules! with_token {
    ($call:expr) => {
        // SAFETY: `self` exists only inside `enter`; references are valid for their whole type.
        unsafe { $call }
    };
}

/// Applies an intrinsic to both registers.
macro_rules! both {
    ($intrinsic:ident, $a:expr, $b:expr) => {
        with_token!([$intrinsic($a[0], $b[0]), $intrinsic($a[1], $b[1])])
    };
}

#[expect(
    clippy::unused_self,
    reason = "the value proves that the instructions are there"
)]
impl Avx2 {
    /// a and b, each folded to its 128-bit sum, side by side.
    #[inline(always)]
    fn fold_quarters(self, a: __m256, b: __m256) -> __m256 {
        with_token!(_mm256_add_ps(
            _mm256_permute2f128_ps::<0x20>(a, b),
            _mm256_permute2f128_ps::<0x31>(a, b)
        ))
    }

    /// As [`Self::fold_quarters`] for 64-bit parts of each quarter.
    #[inline(always)]
    fn fold_pairs(self, a: __m256, b: __m256) -> __m256 {
        with_token!(_mm256_add_ps(
            _mm256_shuffle_ps::<0b01_00_01_00>(a, b),
            _mm256_shuffle_ps::<0b11_10_11_10>(a, b)
        ))
    }

    /// As [`Self::fold_quarters`] for neighbours.
    #[inline(always)]
    fn fold_neighbours(self, a: __m256, b: __m256) -> __m256 {
        with_token!(_mm256_add_ps(
            _mm256_shuffle_ps::<0b10_00_10_00>(a, b),
            _mm256_shuffle_ps::<0b11_01_11_01>(a, b)
        ))
    }

    /// Lane i is the sum of row i.
    #[inline(always)]
    fn sums_of_eight(self, rows: &[[__m256; 2]]) -> __m256 {
        // No closures: they would not be inlined.
        let mut halves = [rows[0][0]; 8];
        for (half, row) in halves.iter_mut().zip(rows) {
            *half = with_token!(_mm256_add_ps(row[0], row[1]));
        }
        let mut quarters = [halves[0]; 4];
        for (i, quarter) in quarters.iter_mut().enumerate() {
            *quarter = self.fold_quarters(halves[i], halves[i + 4]);
        }
        let left = self.fold_pairs(quarters[0], quarters[1]);
        let right = self.fold_pairs(quarters[2], quarters[3]);
        self.fold_neighbours(left, right)
    }

    /// Unsigned times signed bytes of one register, as sums of two in 16 bits.
    #[inline(always)]
    fn pairs_of_products(self, bytes: __m256i, row: __m256i) -> __m256i {
        with_token!(_mm256_maddubs_epi16(bytes, row))
    }

    /// Bytes as signed ones around 128, times `row`, as 32-bit sums of four: |q − 128| · 127 · 2 fits 16 bits.
    #[inline(always)]
    fn centred(self, bytes: __m256i, row: __m256i) -> __m256i {
        let signed = with_token!(_mm256_xor_si256(bytes, _mm256_set1_epi8(-128)));
        let size = with_token!(_mm256_abs_epi8(signed));
        let turned = with_token!(_mm256_sign_epi8(row, signed));
        with_token!(_mm256_madd_epi16(
            self.pairs_of_products(size, turned),
            _mm256_set1_epi16(1)
        ))
    }
}

impl Simd for Avx2 {
    type F = [__m256; 2];
    type I = [__m256i; 2];
    const ROWS: usize = 4;
    const CENTRE: i32 = 128;
    const PAIRS: usize = 1;

    #[inline(always)]
    fn splat(self, value: f32) -> Self::F {
        [with_token!(_mm256_set1_ps(value)); 2]
    }
    #[inline(always)]
    fn load(self, from: &[f32; LANES]) -> Self::F {
        with_token!([
            _mm256_loadu_ps(from.as_ptr()),
            _mm256_loadu_ps(from.as_ptr().add(8))
        ])
    }
    #[inline(always)]
    fn store(self, value: Self::F, to: &mut [f32; LANES]) {
        with_token!({
            _mm256_storeu_ps(to.as_mut_ptr(), value[0]);
            _mm256_storeu_ps(to.as_mut_ptr().add(8), value[1]);
        });
    }
    #[inline(always)]
    fn load_f16(self, from: &[f16; LANES]) -> Self::F {
        let from: *const __m128i = from.as_ptr().cast();
        with_token!([
            _mm256_cvtph_ps(_mm_loadu_si128(from)),
            _mm256_cvtph_ps(_mm_loadu_si128(from.add(1)))
        ])
    }
    #[inline(always)]
    fn store_f16(self, value: Self::F, to: &mut [f16; LANES]) {
        const NEAREST: i32 = _MM_FROUND_TO_NEAREST_INT;
        let to: *mut __m128i = to.as_mut_ptr().cast();
        with_token!({
            _mm_storeu_si128(to, _mm256_cvtps_ph::<NEAREST>(value[0]));
            _mm_storeu_si128(to.add(1), _mm256_cvtps_ph::<NEAREST>(value[1]));
        });
    }
    #[inline(always)]
    fn load_bf16(self, from: &[bf16; LANES]) -> Self::F {
        let from: *const __m128i = from.as_ptr().cast();
        with_token!({
            let low = _mm256_cvtepu16_epi32(_mm_loadu_si128(from));
            let high = _mm256_cvtepu16_epi32(_mm_loadu_si128(from.add(1)));
            [
                _mm256_castsi256_ps(_mm256_slli_epi32::<16>(low)),
                _mm256_castsi256_ps(_mm256_slli_epi32::<16>(high)),
            ]
        })
    }
    #[inline(always)]
    fn load_i8(self, from: &[i8; LANES]) -> Self::F {
        with_token!({
            let bytes = _mm_loadu_si128(from.as_ptr().cast());
            let upper = _mm_unpackhi_epi64(bytes, bytes);
            [
                _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(bytes)),
                _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(upper)),
            ]
        })
    }

    #[inline(always)]
    fn add(self, a: Self::F, b: Self::F) -> Self::F {
        both!(_mm256_add_ps, a, b)
    }
    #[inline(always)]
    fn sub(self, a: Self::F, b: Self::F) -> Self::F {
        both!(_mm256_sub_ps, a, b)
    }
    #[inline(always)]
    fn mul(self, a: Self::F, b: Self::F) -> Self::F {
        both!(_mm256_mul_ps, a, b)
    }
    #[inline(always)]
    fn div(self, a: Self::F, b: Self::F) -> Self::F {
        both!(_mm256_div_ps, a, b)
    }
    #[inline(always)]
    fn max(self, a: Self::F, b: Self::F) -> Self::F {
        both!(_mm256_max_ps, a, b)
    }
    #[inline(always)]
    fn min(self, a: Self::F, b: Self::F) -> Self::F {
        both!(_mm256_min_ps, a, b)
    }
    #[inline(always)]
    fn mul_add(self, a: Self::F, b: Self::F, c: Self::F) -> Self::F {
        with_token!([
            _mm256_fmadd_ps(a[0], b[0], c[0]),
            _mm256_fmadd_ps(a[1], b[1], c[1])
        ])
    }
    #[inline(always)]
    fn sum(self, a: Self::F) -> f32 {
        let a = with_token!(_mm256_add_ps(a[0], a[1]));
        let a = self.fold_quarters(a, a);
        let a = self.fold_pairs(a, a);
        let a = self.fold_neighbours(a, a);
        with_token!(_mm256_cvtss_f32(a))
    }
    #[inline(always)]
    fn largest(self, a: Self::F) -> f32 {
        with_token!({
            let a = _mm256_max_ps(a[0], a[1]);
            let a = _mm_max_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps::<1>(a));
            let a = _mm_max_ps(a, _mm_movehl_ps(a, a));
            _mm_cvtss_f32(_mm_max_ss(a, _mm_movehdup_ps(a)))
        })
    }
    #[inline(always)]
    fn keep_at_least(self, value: Self::F, x: Self::F, bound: Self::F) -> Self::F {
        with_token!([
            _mm256_and_ps(value[0], _mm256_cmp_ps::<_CMP_GE_OQ>(x[0], bound[0])),
            _mm256_and_ps(value[1], _mm256_cmp_ps::<_CMP_GE_OQ>(x[1], bound[1]))
        ])
    }
    #[inline(always)]
    fn at_least(self, a: Self::F, b: Self::F) -> u32 {
        with_token!({
            let low = _mm256_movemask_ps(_mm256_cmp_ps::<_CMP_GE_OQ>(a[0], b[0])) as u32;
            let high = _mm256_movemask_ps(_mm256_cmp_ps::<_CMP_GE_OQ>(a[1], b[1])) as u32;
            low | high << 8
        })
    }
    #[inline(always)]
    fn sums(self, rows: [Self::F; LANES]) -> Self::F {
        [
            self.sums_of_eight(&rows[..8]),
            self.sums_of_eight(&rows[8..]),
        ]
    }

    #[inline(always)]
    fn splat_int(self, value: i32) -> Self::I {
        [with_token!(_mm256_set1_epi32(value)); 2]
    }
    #[inline(always)]
    fn load_int(self, from: &[i32; LANES]) -> Self::I {
        let from: *const __m256i = from.as_ptr().cast();
        with_token!([_mm256_loadu_si256(from), _mm256_loadu_si256(from.add(1))])
    }
    #[inline(always)]
    fn store_int(self, value: Self::I, to: &mut [i32; LANES]) {
        let to: *mut __m256i = to.as_mut_ptr().cast();
        with_token!({
            _mm256_storeu_si256(to, value[0]);
            _mm256_storeu_si256(to.add(1), value[1]);
        });
    }
    #[inline(always)]
    fn add_int(self, a: Self::I, b: Self::I) -> Self::I {
        both!(_mm256_add_epi32, a, b)
    }
    #[inline(always)]
    fn sub_int(self, a: Self::I, b: Self::I) -> Self::I {
        both!(_mm256_sub_epi32, a, b)
    }
    #[inline(always)]
    fn and(self, a: Self::I, b: Self::I) -> Self::I {
        both!(_mm256_and_si256, a, b)
    }
    #[inline(always)]
    fn xor(self, a: Self::I, b: Self::I) -> Self::I {
        both!(_mm256_xor_si256, a, b)
    }
    #[inline(always)]
    fn shift_left(self, a: Self::I, bits: u32) -> Self::I {
        let by = self.splat_int(bits as i32);
        both!(_mm256_sllv_epi32, a, by)
    }
    #[inline(always)]
    fn shift_right(self, a: Self::I, bits: u32) -> Self::I {
        let by = self.splat_int(bits as i32);
        both!(_mm256_srlv_epi32, a, by)
    }
    #[inline(always)]
    fn mul_wide(self, a: Self::I, b: Self::I) -> (Self::I, Self::I) {
        const ODD: i32 = 0b1010_1010;
        let mut high = a;
        for i in 0..2 {
            high[i] = with_token!({
                let odd =
                    _mm256_mul_epu32(_mm256_srli_epi64::<32>(a[i]), _mm256_srli_epi64::<32>(b[i]));
                let even = _mm256_srli_epi64::<32>(_mm256_mul_epu32(a[i], b[i]));
                _mm256_blend_epi32::<ODD>(even, odd)
            });
        }
        (high, both!(_mm256_mullo_epi32, a, b))
    }
    #[inline(always)]
    fn round(self, a: Self::F) -> Self::I {
        with_token!([_mm256_cvtps_epi32(a[0]), _mm256_cvtps_epi32(a[1])])
    }
    #[inline(always)]
    fn float(self, a: Self::I) -> Self::F {
        with_token!([_mm256_cvtepi32_ps(a[0]), _mm256_cvtepi32_ps(a[1])])
    }
    #[inline(always)]
    fn bits(self, a: Self::F) -> Self::I {
        with_token!([_mm256_castps_si256(a[0]), _mm256_castps_si256(a[1])])
    }
    #[inline(always)]
    fn float_bits(self, a: Self::I) -> Self::F {
        with_token!([_mm256_castsi256_ps(a[0]), _mm256_castsi256_ps(a[1])])
    }

    #[inline(always)]
    fn dot4(self, sums: Self::I, bytes: Self::I, row: i32) -> Self::I {
        // 16-bit sums: 15 · 127 · 2 eight times stays below 2¹⁵.
        let row = with_token!(_mm256_set1_epi32(row));
        with_token!([
            _mm256_add_epi16(sums[0], self.pairs_of_products(bytes[0], row)),
            _mm256_add_epi16(sums[1], self.pairs_of_products(bytes[1], row))
        ])
    }
    #[inline(always)]
    fn end_dot4(self, sums: Self::I) -> Self::I {
        let ones = [with_token!(_mm256_set1_epi16(1)); 2];
        both!(_mm256_madd_epi16, sums, ones)
    }
    #[inline(always)]
    fn dot7(self, sums: Self::I, bytes: Self::I, row: i32) -> Self::I {
        let row = with_token!(_mm256_set1_epi32(row));
        let ones = with_token!(_mm256_set1_epi16(1));
        with_token!([
            _mm256_add_epi32(
                sums[0],
                _mm256_madd_epi16(self.pairs_of_products(bytes[0], row), ones)
            ),
            _mm256_add_epi32(
                sums[1],
                _mm256_madd_epi16(self.pairs_of_products(bytes[1], row), ones)
            )
        ])
    }
    #[inline(always)]
    fn dot8(self, sums: Self::I, bytes: Self::I, row: i32) -> Self::I {
        let row = with_token!(_mm256_set1_epi32(row));
        with_token!([
            _mm256_add_epi32(sums[0], self.centred(bytes[0], row)),
            _mm256_add_epi32(sums[1], self.centred(bytes[1], row))
        ])
    }
}
