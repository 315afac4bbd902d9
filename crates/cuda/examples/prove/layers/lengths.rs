//! How many sequences steps have, and how long those are.

pub(super) fn longest(lengths: &[usize]) -> usize {
    lengths.iter().copied().max().unwrap_or(0)
}

/// Sequences of one length a step.
pub(super) fn alike(steps: &[(usize, usize)]) -> Vec<Vec<usize>> {
    let step = |&(rows, length): &(usize, usize)| vec![length; rows];
    steps.iter().map(step).collect()
}

/// So many sequences of half a length to one and a half of it, in no order.
pub(super) fn mixed(sequences: usize, length: usize) -> Vec<usize> {
    let place = |i: usize| i * 37 % sequences;
    (0..sequences)
        .map(|i| length / 2 + length * place(i) / (sequences - 1))
        .collect()
}

/// So many sequences of a length to 63 positions more, in order: as prompts that began one after the other.
pub(super) fn close(sequences: usize, length: usize) -> Vec<usize> {
    (0..sequences).map(|i| length + i % 64).collect()
}

/// Rows and lengths of steps.
pub(super) const FEW: [(usize, usize); 5] =
    [(1, 1088), (1, 16384), (2, 1088), (4, 1088), (8, 1088)];
pub(super) const MANY: [(usize, usize); 4] = [(16, 1088), (32, 1088), (64, 1536), (256, 1536)];
/// Sequences of mixed lengths, and the mean of those.
pub(super) const MIXED: [(usize, usize); 3] = [(8, 1088), (16, 1088), (64, 1536)];
/// Sequences of one length, the last piece of which is not full, and those that are close to each other.
pub(super) const PARTS: [(usize, usize); 2] = [(256, 1409), (64, 1500)];
pub(super) const CLOSE: [(usize, usize); 2] = [(256, 1500), (64, 1500)];
/// Prompts, their lengths and new tokens.
pub(super) const PROMPTS: [(usize, usize, usize); 3] =
    [(8, 1024, 1024), (1, 1024, 1024), (4, 4096, 2048)];
