//! How fast this machine reads memory: the floor of decoding.

use std::hint::black_box;
use std::time::Instant;

/// Far larger than any cache a few cores have.
const BYTES: usize = 256 << 20;
const PASSES: usize = 7;

/// Bytes a second that the threads read together, the best of a few passes.
///
/// Each thread compares two equal halves: the C library does that as fast as memory gives, however
/// this program was compiled.
pub(crate) fn read(threads: usize) -> f64 {
    // ones, not zeros: untouched pages would all be the same page
    let memory = vec![1u8; BYTES];
    let share = BYTES / threads / 2;
    let pass = || {
        let start = Instant::now();
        std::thread::scope(|scope| {
            for part in memory.chunks_exact(2 * share) {
                scope.spawn(move || {
                    let (left, right) = part.split_at(share);
                    black_box(black_box(left) == black_box(right));
                });
            }
        });
        (2 * share * threads) as f64 / start.elapsed().as_secs_f64()
    };
    (0..PASSES).map(|_| pass()).fold(0.0, f64::max)
}
