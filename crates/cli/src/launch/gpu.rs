//! What users of SGLang expect of a GPU by its memory alone.

/// Whole gibibytes.
pub(super) fn gib(bytes: usize) -> usize {
    bytes >> 30
}

/// Prompt tokens of a step and the largest captured batch, by the memory of a GPU.
pub(super) fn by_memory(bytes: usize) -> (i64, i64) {
    match gib(bytes) {
        0..20 => (2048, 8),
        20..35 => (2048, 24),
        35..60 => (4096, 32),
        60..160 => (8192, 256),
        _ => (16384, 512),
    }
}

/// Row counts worth capturing up to `most`: close together where batches are small.
pub(super) fn graph_rows(most: usize) -> Vec<usize> {
    let small = [1, 2, 4, 8, 12].into_iter();
    let rows = small
        .chain((16..=256).step_by(8))
        .chain((272..512).step_by(16));
    rows.chain((512..=most.max(512)).step_by(32))
        .take_while(|&rows| rows <= most)
        .collect()
}

/// What is left at least, so that a GPU too small for anything is refused with what a model needs of it.
const LEAST_FRACTION: f64 = 0.001;

/// The share of a GPU that is left when work space, captured batches and the runtime are taken off.
pub(super) fn static_fraction(bytes: usize, prefill: u32) -> f64 {
    let mib = (bytes >> 20) as f64;
    let (_, batch) = by_memory(bytes);
    let reserved = 512.0 + 1.5 * f64::from(prefill.max(2048)) + 2.0 * batch as f64 + 128.0;
    let reserved = if gib(bytes) > 60 {
        reserved.max(10.0 * 1024.0)
    } else {
        reserved
    };
    let left = (((mib - reserved) / mib) * 1000.0).round() / 1000.0;
    left.max(LEAST_FRACTION)
}
