//! The forward cosine transform in thirteen-bit fixed point, and quantisation.

const BITS: i32 = 13;
const EXTRA: i32 = 2;

const C0_298: i32 = 2446;
const C0_390: i32 = 3196;
const C0_541: i32 = 4433;
const C0_765: i32 = 6270;
const C0_899: i32 = 7373;
const C1_175: i32 = 9633;
const C1_501: i32 = 12299;
const C1_847: i32 = 15137;
const C1_961: i32 = 16069;
const C2_053: i32 = 16819;
const C2_562: i32 = 20995;
const C3_072: i32 = 25172;

/// Transforms and quantises a block of samples around zero.
pub(super) fn transform(samples: &[i32; 64], quant: &[u16; 64]) -> [i32; 64] {
    let mut block = *samples;
    for row in 0..8 {
        pass(&mut block, row * 8, 1, Pass::Rows);
    }
    for column in 0..8 {
        pass(&mut block, column, 8, Pass::Columns);
    }
    for (value, quant) in block.iter_mut().zip(quant) {
        // The transform leaves everything eight times too large.
        let divisor = i32::from(*quant) << 3;
        let size = (value.abs() + (divisor >> 1)) / divisor;
        *value = if *value < 0 { -size } else { size };
    }
    block
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Pass {
    Rows,
    Columns,
}

fn rounded(value: i32, shift: i32) -> i32 {
    (value + (1 << (shift - 1))) >> shift
}

/// One dimension of the transform over eight values that lie `step` apart.
fn pass(block: &mut [i32; 64], from: usize, step: usize, pass: Pass) {
    let at = |place: usize| from + place * step;
    let value = |place: usize| block[at(place)];
    let sum = |low: usize| value(low) + value(7 - low);
    let difference = |low: usize| value(low) - value(7 - low);
    let (s0, s1, s2, s3) = (sum(0), sum(1), sum(2), sum(3));
    let (d4, d5, d6, d7) = (difference(3), difference(2), difference(1), difference(0));
    let (e0, e3, e1, e2) = (s0 + s3, s0 - s3, s1 + s2, s1 - s2);
    let shift = if pass == Pass::Rows {
        BITS - EXTRA
    } else {
        BITS + EXTRA
    };
    let (even, odd) = if pass == Pass::Rows {
        ((e0 + e1) << EXTRA, (e0 - e1) << EXTRA)
    } else {
        (rounded(e0 + e1, EXTRA), rounded(e0 - e1, EXTRA))
    };
    let rotated = (e2 + e3) * C0_541;
    let two = rounded(rotated + e3 * C0_765, shift);
    let six = rounded(rotated - e2 * C1_847, shift);

    let z5 = (d4 + d6 + d5 + d7) * C1_175;
    let z1 = -(d4 + d7) * C0_899;
    let z2 = -(d5 + d6) * C2_562;
    let z3 = -(d4 + d6) * C1_961 + z5;
    let z4 = -(d5 + d7) * C0_390 + z5;
    let seven = rounded(d4 * C0_298 + z1 + z3, shift);
    let five = rounded(d5 * C2_053 + z2 + z4, shift);
    let three = rounded(d6 * C3_072 + z2 + z3, shift);
    let one = rounded(d7 * C1_501 + z1 + z4, shift);
    for (place, value) in [even, one, two, three, odd, five, six, seven]
        .into_iter()
        .enumerate()
    {
        block[at(place)] = value;
    }
}
