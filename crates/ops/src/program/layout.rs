//! Where the values of a class lie: fixed offsets in one arena, reused when a value has been read for the last time.

use tensor::DType;

use crate::Access;

use super::{Program, StepClass, Val};

/// Every value starts at a multiple of this.
const ALIGNMENT: usize = 256;
/// Rows are padded to a multiple of this, so that no kernel has to ask.
const ROWS: usize = 4;

/// When each value is written first and read last, by places in a list of launches.
#[derive(Clone, Debug)]
pub struct Spans {
    /// First and last place of a value that lies in the arena.
    spans: Vec<Option<(usize, usize)>>,
    /// The value in whose memory each value lies.
    homes: Vec<Val>,
}

/// Memory besides values that a device wants for a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extra {
    /// Bytes.
    pub bytes: usize,
    /// First place of the list that uses it.
    pub first: usize,
    /// Last place.
    pub last: usize,
}

/// Offsets of values and extras.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    offsets: Vec<Option<usize>>,
    extras: Vec<usize>,
    bytes: usize,
}

impl Spans {
    /// Of a program each of whose ops is launched at its place in `places`: fused ops have one place.
    pub fn of(program: &Program, places: &[usize]) -> Self {
        let mut homes: Vec<Val> = (0..program.values.len() as u32).map(Val).collect();
        let mut spans: Vec<Option<(usize, usize)>> = vec![None; homes.len()];
        for (node, &place) in program.nodes.iter().zip(places) {
            node.op.visit(&mut |access| {
                let touched = match access {
                    Access::Read(value) | Access::Write(value) => value,
                    Access::Update(update) => {
                        homes[update.to.index()] = homes[update.from.index()];
                        update.to
                    }
                    Access::Weight(_) | Access::Vector(_) | Access::Cache(_) => return,
                };
                extend(&mut spans[homes[touched.index()].index()], place);
            });
        }
        let end = places.iter().copied().max().unwrap_or(0) + 1;
        for &(_, value) in &program.outputs {
            extend(&mut spans[homes[value.index()].index()], end);
        }
        for (span, value) in spans.iter_mut().zip(&program.values) {
            if value.input.is_some() {
                *span = None;
            }
        }
        Self { spans, homes }
    }
}

fn extend(span: &mut Option<(usize, usize)>, place: usize) {
    *span = Some(match *span {
        None => (place, place),
        Some((first, last)) => (first.min(place), last.max(place)),
    });
}

/// Memory that is wanted from one place to another.
struct Wanted {
    bytes: usize,
    first: usize,
    last: usize,
}

impl Layout {
    /// Lays out values and extras. Memory is taken again `distance` places after its last reader at the earliest: one, or more
    /// where launches of a list overlap that far.
    pub fn new(
        program: &Program,
        class: &StepClass,
        activation: DType,
        (spans, extras, distance): (&Spans, &[Extra], usize),
    ) -> Self {
        let mut wanted = Vec::new();
        let mut values = Vec::new();
        for (index, decl) in program.values.iter().enumerate() {
            let Some((first, last)) = spans.spans[index] else {
                continue;
            };
            let rows = class.rows(decl.shape.axis).next_multiple_of(ROWS);
            let bytes =
                rows * decl.shape.cols.unwrap_or(1) * decl.elements.dtype(activation).size();
            values.push(index);
            wanted.push(Wanted { bytes, first, last });
        }
        wanted.extend(extras.iter().map(|extra| Wanted {
            bytes: extra.bytes,
            first: extra.first,
            last: extra.last,
        }));
        let (places, bytes) = place_all(&wanted, distance);
        let mut offsets = vec![None; program.values.len()];
        for (&value, &offset) in values.iter().zip(&places) {
            offsets[value] = Some(offset);
        }
        for (value, home) in spans.homes.iter().enumerate() {
            offsets[value] = offsets[home.index()];
        }
        Self {
            offsets,
            extras: places[values.len()..].to_vec(),
            bytes,
        }
    }

    /// Where a value lies; none of inputs and of values that the list does not touch.
    pub fn offset(&self, value: Val) -> Option<usize> {
        self.offsets[value.index()]
    }

    /// Where an extra lies.
    pub fn extra(&self, index: usize) -> usize {
        self.extras[index]
    }

    /// Bytes of the arena.
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

/// Linear scan: in the order of their first use, each at the lowest offset that is free all the time.
fn place_all(wanted: &[Wanted], distance: usize) -> (Vec<usize>, usize) {
    let mut order: Vec<usize> = (0..wanted.len()).collect();
    order.sort_by_key(|&index| (wanted[index].first, index));
    let mut places = vec![0; wanted.len()];
    let mut live: Vec<(usize, usize, usize)> = Vec::new();
    let mut most = 0;
    for index in order {
        let want = &wanted[index];
        live.retain(|&(_, _, last)| last + distance > want.first);
        live.sort_unstable();
        let bytes = want.bytes.next_multiple_of(ALIGNMENT);
        let mut offset = 0;
        for &(start, end, _) in &live {
            if start >= offset + bytes {
                break;
            }
            offset = offset.max(end);
        }
        places[index] = offset;
        most = most.max(offset + bytes);
        live.push((offset, offset + bytes, want.last));
    }
    (places, most)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_taken_again_when_it_was_read_for_the_last_time() {
        let want = |bytes, first, last| Wanted { bytes, first, last };
        let wanted = [
            want(256, 0, 1),
            want(512, 1, 2),
            want(256, 2, 3),
            want(1, 3, 3),
        ];
        assert_eq!(place_all(&wanted, 1), (vec![0, 256, 0, 256], 768));
        // two places later at the earliest
        assert_eq!(place_all(&wanted, 2), (vec![0, 256, 768, 0], 1024));
    }

    #[test]
    fn a_gap_takes_what_fits_into_it() {
        let want = |bytes, first, last| Wanted { bytes, first, last };
        let wanted = [
            want(256, 0, 9),
            want(512, 0, 1),
            want(256, 0, 9),
            want(512, 2, 3),
            want(513, 2, 3),
        ];
        assert_eq!(place_all(&wanted, 1).0, [0, 256, 768, 256, 1024]);
    }
}
