//! Elementary functions on lanes, the same polynomial at every level.

use super::Simd;

/// Below this exp is zero: the result would lose bits.
const EXP_LOW: f32 = -87.3;
/// Above this exp stays at 2¹²⁷.
const EXP_HIGH: f32 = 88.3;

/// eˣ within two units in the last place; exactly zero below −87.3, minus infinity included.
#[inline(always)]
pub(crate) fn exp<S: Simd>(s: S, x: S::F) -> S::F {
    let low = s.splat(EXP_LOW);
    let bounded = s.min(s.max(x, low), s.splat(EXP_HIGH));
    let power = s.round(s.mul(bounded, s.splat(std::f32::consts::LOG2_E)));
    let whole = s.float(power);
    // ln 2 in two parts, the first with trailing zeros so that its product is exact.
    let rest = s.mul_add(whole, s.splat(-0.693_359_4), bounded);
    let rest = s.mul_add(whole, s.splat(2.121_944_4e-4), rest);
    let mut sum = s.splat(1.0 / 5040.0);
    for coefficient in [
        1.0 / 720.0,
        1.0 / 120.0,
        1.0 / 24.0,
        1.0 / 6.0,
        0.5,
        1.0,
        1.0,
    ] {
        sum = s.mul_add(sum, rest, s.splat(coefficient));
    }
    let exponent = s.shift_left(s.add_int(power, s.splat_int(127)), 23);
    s.keep_at_least(s.mul(sum, s.float_bits(exponent)), x, low)
}

/// tanh x, within 10⁻⁷.
#[inline(always)]
pub(crate) fn tanh<S: Simd>(s: S, x: S::F) -> S::F {
    let (one, two) = (s.splat(1.0), s.splat(2.0));
    let grown = exp(s, s.mul(x, two));
    s.sub(one, s.div(two, s.add(grown, one)))
}

/// Natural logarithm of positive normal numbers.
#[inline(always)]
pub(crate) fn ln<S: Simd>(s: S, x: S::F) -> S::F {
    // x = m · 2ⁿ with m in [√½, √2): the offset makes the cut at √½.
    const CUT: i32 = 0x3F35_04F3;
    let bits = s.sub_int(s.bits(x), s.splat_int(CUT));
    let power = s.sub_int(
        s.shift_right(s.add_int(bits, s.splat_int(128 << 23)), 23),
        s.splat_int(128),
    );
    let mantissa = s.float_bits(s.sub_int(s.bits(x), s.shift_left(power, 23)));
    // ln m = 2 artanh(t), t = (m − 1) / (m + 1), |t| < 0.172.
    let one = s.splat(1.0);
    let t = s.div(s.sub(mantissa, one), s.add(mantissa, one));
    let square = s.mul(t, t);
    let mut sum = s.splat(2.0 / 9.0);
    for coefficient in [2.0 / 7.0, 2.0 / 5.0, 2.0 / 3.0] {
        sum = s.mul_add(sum, square, s.splat(coefficient));
    }
    let tail = s.mul(s.mul(sum, square), t);
    let whole = s.float(power);
    let small = s.mul_add(whole, s.splat(-2.121_944_4e-4), tail);
    let near = s.mul_add(s.splat(2.0), t, small);
    s.mul_add(whole, s.splat(0.693_359_4), near)
}
