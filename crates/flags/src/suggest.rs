//! The nearest spelling to a misspelt one.

/// The candidate closest to `word`, when close enough to be what was meant.
pub fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let length = word.chars().count();
    let limit = (length / 3).max(1);
    candidates
        .into_iter()
        .filter(|candidate| candidate.chars().count().abs_diff(length) <= limit)
        .map(|candidate| (distance(word, candidate), candidate))
        .filter(|(edits, _)| *edits <= limit)
        .min_by_key(|(edits, _)| *edits)
        .map(|(_, candidate)| candidate)
}

/// Insertions, deletions, replacements and swaps of neighbours that turn one word into the other.
fn distance(left: &str, right: &str) -> usize {
    let left: Vec<char> = left.to_lowercase().chars().collect();
    let right: Vec<char> = right.to_lowercase().chars().collect();
    let width = right.len() + 1;
    let mut rows = vec![0; (left.len() + 1) * width];
    for (column, cell) in rows.iter_mut().enumerate().take(width) {
        *cell = column;
    }
    for row in 1..=left.len() {
        rows[row * width] = row;
        for column in 1..width {
            let same = left[row - 1] == right[column - 1];
            let replaced = rows[(row - 1) * width + column - 1] + usize::from(!same);
            let removed = rows[(row - 1) * width + column] + 1;
            let inserted = rows[row * width + column - 1] + 1;
            let mut best = replaced.min(removed).min(inserted);
            let swapped = row > 1
                && column > 1
                && left[row - 1] == right[column - 2]
                && left[row - 2] == right[column - 1];
            if swapped {
                best = best.min(rows[(row - 2) * width + column - 2] + 1);
            }
            rows[row * width + column] = best;
        }
    }
    rows[rows.len() - 1]
}
