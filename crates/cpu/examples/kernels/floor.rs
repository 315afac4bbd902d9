//! What the machine can do at best.

use std::time::Instant;

/// Bytes read and byte products done in a second by all threads.
pub(crate) struct Floor {
    pub(crate) read: f64,
    pub(crate) products: f64,
}

impl Floor {
    pub(crate) fn measure(threads: usize) -> Self {
        let data = vec![1u64; 16 << 20];
        let bytes = (data.len() * 8) as f64;
        let read = (0..30)
            .map(|_| {
                bytes
                    / in_parallel(threads, |thread| {
                        let part = data.len() / threads;
                        let slice = &data[thread * part..(thread + 1) * part];
                        std::hint::black_box(read(slice));
                    })
            })
            .fold(0.0, f64::max);
        let products = (0..400)
            .map(|_| products_done(threads) / in_parallel(threads, |_| peak()))
            .fold(0.0, f64::max);
        Self { read, products }
    }

    /// The least time for an op that reads `bytes` and does `products`.
    pub(crate) fn time(&self, bytes: usize, products: usize) -> f64 {
        (bytes as f64 / self.read).max(products as f64 / self.products)
    }
}

fn in_parallel(threads: usize, work: impl Fn(usize) + Sync) -> f64 {
    let start = Instant::now();
    std::thread::scope(|scope| {
        for thread in 1..threads {
            let work = &work;
            scope.spawn(move || work(thread));
        }
        work(0);
    });
    start.elapsed().as_secs_f64()
}

#[cfg(target_arch = "x86_64")]
fn read(data: &[u64]) -> u64 {
    #[target_feature(enable = "avx2")]
    fn wide(data: &[u64]) -> u64 {
        data.iter().fold(0, |sum, x| sum ^ x)
    }
    if is_x86_feature_detected!("avx2") {
        // SAFETY: detected on the line above.
        return unsafe { wide(data) };
    }
    data.iter().sum()
}

#[cfg(not(target_arch = "x86_64"))]
fn read(data: &[u64]) -> u64 {
    data.iter().sum()
}

const ROUNDS: usize = 50_000;

fn products_done(threads: usize) -> f64 {
    (threads * ROUNDS * 12 * 64) as f64
}

/// Twelve independent chains of byte products, from registers.
fn peak() {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx512vnni") {
        // SAFETY: detected on the line above.
        unsafe { peak_vnni() };
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512vnni")]
fn peak_vnni() {
    use std::arch::x86_64::{
        _mm512_dpbusd_epi32, _mm512_set1_epi8, _mm512_setzero_si512, _mm512_xor_si512,
    };
    let mut sums = [_mm512_setzero_si512(); 12];
    let (mut a, b) = (
        _mm512_set1_epi8(3),
        std::hint::black_box(_mm512_set1_epi8(5)),
    );
    for _ in 0..ROUNDS {
        for sum in &mut sums {
            *sum = _mm512_dpbusd_epi32(*sum, a, b);
        }
        // Keeps the compiler from folding the rounds.
        a = _mm512_xor_si512(a, b);
    }
    std::hint::black_box(sums);
}
