//! Sixteen lanes, whatever the instruction set: kernels are written once and compiled for each level.
//!
//! A kernel is a [`Vectorised`] value; [`Level::run`] enters the functions in which the level's instructions may be used.
//! Every level keeps sixteen lanes and the same order of operations, so that levels with fused multiply-add agree to the bit.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
pub(crate) mod math;
mod portable;
#[cfg(test)]
mod tests;

use half::{bf16, f16};

/// Lanes of a vector.
pub(crate) const LANES: usize = 16;

/// An instruction set that this machine has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Level(Kind);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Portable,
    #[cfg(target_arch = "x86_64")]
    Avx2,
    #[cfg(target_arch = "x86_64")]
    Avx512,
}

impl Level {
    /// All levels of this machine, the best one last.
    pub fn available() -> Vec<Self> {
        let mut levels = vec![Self(Kind::Portable)];
        #[cfg(target_arch = "x86_64")]
        {
            let avx2 = is_x86_feature_detected!("avx2")
                && is_x86_feature_detected!("fma")
                && is_x86_feature_detected!("f16c");
            if avx2 {
                levels.push(Self(Kind::Avx2));
            }
            let avx512 = is_x86_feature_detected!("avx512f")
                && is_x86_feature_detected!("avx512bw")
                && is_x86_feature_detected!("avx512dq")
                && is_x86_feature_detected!("avx512vl")
                && is_x86_feature_detected!("avx512vnni");
            if avx2 && avx512 {
                levels.push(Self(Kind::Avx512));
            }
        }
        levels
    }

    /// The best level of this machine.
    pub fn best() -> Self {
        *Self::available()
            .last()
            .expect("the portable level is always there")
    }

    /// What it is called.
    pub fn name(self) -> &'static str {
        match self.0 {
            Kind::Portable => "portable",
            #[cfg(target_arch = "x86_64")]
            Kind::Avx2 => "avx2",
            #[cfg(target_arch = "x86_64")]
            Kind::Avx512 => "avx512vnni",
        }
    }

    /// Activation rows that share one read of a weight.
    pub(crate) fn rows(self) -> usize {
        match self.0 {
            Kind::Portable => portable::Portable::ROWS,
            #[cfg(target_arch = "x86_64")]
            Kind::Avx2 => avx2::Avx2::ROWS,
            #[cfg(target_arch = "x86_64")]
            Kind::Avx512 => avx512::Avx512::ROWS,
        }
    }

    /// What byte products take from each unsigned byte of eight bits.
    pub(crate) fn centre(self) -> i32 {
        match self.0 {
            Kind::Portable => portable::Portable::CENTRE,
            #[cfg(target_arch = "x86_64")]
            Kind::Avx2 => avx2::Avx2::CENTRE,
            #[cfg(target_arch = "x86_64")]
            Kind::Avx512 => avx512::Avx512::CENTRE,
        }
    }

    /// Runs a kernel with this level's instructions.
    pub(crate) fn run<V: Vectorised>(self, kernel: V) -> V::Output {
        match self.0 {
            Kind::Portable => kernel.run(portable::Portable),
            #[cfg(target_arch = "x86_64")]
            // SAFETY: the level exists only where the features were detected.
            Kind::Avx2 => unsafe { avx2::enter(kernel) },
            #[cfg(target_arch = "x86_64")]
            // SAFETY: the level exists only where the features were detected.
            Kind::Avx512 => unsafe { avx512::enter(kernel) },
        }
    }
}

/// A kernel with its arguments.
///
/// `run` and everything it calls with `S` is `#[inline(always)]`: only inside [`Level::run`] are the instructions at hand.
pub(crate) trait Vectorised {
    /// What it gives back.
    type Output;
    /// The kernel.
    fn run<S: Simd>(self, simd: S) -> Self::Output;
}

/// Operations on sixteen lanes. A value of the type is the proof that the machine has the instructions.
pub(crate) trait Simd: Copy {
    /// Sixteen floats.
    type F: Copy;
    /// Sixteen 32-bit integers, or 64 bytes.
    type I: Copy;
    /// Activation rows that share one read of a weight.
    const ROWS: usize;
    /// What [`Self::dot8`] takes from each unsigned byte.
    const CENTRE: i32;
    /// Queries that share one read of a key or value, at most three.
    const PAIRS: usize;

    fn splat(self, value: f32) -> Self::F;
    fn load(self, from: &[f32; LANES]) -> Self::F;
    fn store(self, value: Self::F, to: &mut [f32; LANES]);
    fn load_f16(self, from: &[f16; LANES]) -> Self::F;
    /// Rounds to the nearest, ties to even.
    fn store_f16(self, value: Self::F, to: &mut [f16; LANES]);
    fn load_bf16(self, from: &[bf16; LANES]) -> Self::F;
    fn load_i8(self, from: &[i8; LANES]) -> Self::F;

    fn add(self, a: Self::F, b: Self::F) -> Self::F;
    fn sub(self, a: Self::F, b: Self::F) -> Self::F;
    fn mul(self, a: Self::F, b: Self::F) -> Self::F;
    fn div(self, a: Self::F, b: Self::F) -> Self::F;
    /// The larger; `b` where `a` is not a number.
    fn max(self, a: Self::F, b: Self::F) -> Self::F;
    /// The smaller; `b` where `a` is not a number.
    fn min(self, a: Self::F, b: Self::F) -> Self::F;
    /// a · b + c, rounded once where the machine can.
    fn mul_add(self, a: Self::F, b: Self::F, c: Self::F) -> Self::F;
    /// Sum of the lanes: halves are added until one is left.
    fn sum(self, a: Self::F) -> f32;
    /// Largest lane.
    fn largest(self, a: Self::F) -> f32;
    /// `value` in lanes where `x` ≥ `bound`, zero elsewhere.
    fn keep_at_least(self, value: Self::F, x: Self::F, bound: Self::F) -> Self::F;
    /// Bit i is set when lane i of `a` ≥ lane i of `b`.
    fn at_least(self, a: Self::F, b: Self::F) -> u32;
    /// Lane i is the sum of the lanes of `rows[i]`.
    fn sums(self, rows: [Self::F; LANES]) -> Self::F;

    fn splat_int(self, value: i32) -> Self::I;
    fn load_int(self, from: &[i32; LANES]) -> Self::I;
    fn store_int(self, value: Self::I, to: &mut [i32; LANES]);
    fn add_int(self, a: Self::I, b: Self::I) -> Self::I;
    fn sub_int(self, a: Self::I, b: Self::I) -> Self::I;
    fn and(self, a: Self::I, b: Self::I) -> Self::I;
    fn xor(self, a: Self::I, b: Self::I) -> Self::I;
    fn shift_left(self, a: Self::I, bits: u32) -> Self::I;
    /// Fills with zeros.
    fn shift_right(self, a: Self::I, bits: u32) -> Self::I;
    /// Upper and lower halves of the unsigned products.
    fn mul_wide(self, a: Self::I, b: Self::I) -> (Self::I, Self::I);
    /// To the nearest, ties to even.
    fn round(self, a: Self::F) -> Self::I;
    fn float(self, a: Self::I) -> Self::F;
    fn bits(self, a: Self::F) -> Self::I;
    fn float_bits(self, a: Self::I) -> Self::F;

    /// Adds to each lane the products of its four unsigned bytes, all below 16, with the four signed bytes of `row`.
    /// At most eight may be added before [`Self::end_dot4`].
    fn dot4(self, sums: Self::I, bytes: Self::I, row: i32) -> Self::I;
    /// The sums as 32-bit integers.
    fn end_dot4(self, sums: Self::I) -> Self::I;
    /// As [`Self::dot4`] for unsigned bytes below 128, signed ones above −128, sums at once as 32-bit integers.
    fn dot7(self, sums: Self::I, bytes: Self::I, row: i32) -> Self::I;
    /// As [`Self::dot7`] for any unsigned bytes, of each of which [`Self::CENTRE`] is subtracted.
    fn dot8(self, sums: Self::I, bytes: Self::I, row: i32) -> Self::I;

    /// Up to fifteen floats and zeros.
    #[inline(always)]
    fn load_tail(self, from: &[f32]) -> Self::F {
        let mut lanes = [0.0; LANES];
        lanes[..from.len()].copy_from_slice(from);
        self.load(&lanes)
    }

    /// The first lanes.
    #[inline(always)]
    fn store_tail(self, value: Self::F, to: &mut [f32]) {
        let mut lanes = [0.0; LANES];
        self.store(value, &mut lanes);
        to.copy_from_slice(&lanes[..to.len()]);
    }
}
