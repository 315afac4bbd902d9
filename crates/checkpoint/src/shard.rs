//! Which rows or columns of a weight belong to a rank.

use std::ops::Range;

/// One rank of a tensor-parallel group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rank {
    /// Its place, from 0.
    pub index: usize,
    /// How many ranks there are.
    pub count: usize,
}

impl Rank {
    /// The only rank of a group of one.
    pub const ALONE: Self = Self { index: 0, count: 1 };
}

/// Why a weight cannot be divided.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum ShardError {
    /// The parts would differ in size.
    #[error("{units} units of {unit} cannot be divided evenly among {ranks} ranks")]
    Uneven {
        /// How many indivisible units there are.
        units: usize,
        /// Rows or columns of a unit.
        unit: usize,
        /// Ranks to divide among.
        ranks: usize,
    },
    /// The length is no multiple of the unit.
    #[error("{length} rows or columns are not a multiple of {unit}")]
    NotWhole {
        /// Rows or columns.
        length: usize,
        /// Rows or columns of a unit.
        unit: usize,
    },
}

fn units(length: usize, unit: usize) -> Result<usize, ShardError> {
    if unit == 0 || !length.is_multiple_of(unit) {
        return Err(ShardError::NotWhole { length, unit });
    }
    Ok(length / unit)
}

/// The equal part of `length` rows or columns that belongs to `rank`, never cutting a unit (a head, a block).
pub fn even_part(length: usize, unit: usize, rank: Rank) -> Result<Range<usize>, ShardError> {
    let units = units(length, unit)?;
    if !units.is_multiple_of(rank.count) {
        return Err(ShardError::Uneven {
            units,
            unit,
            ranks: rank.count,
        });
    }
    let part = units / rank.count * unit;
    Ok(rank.index * part..(rank.index + 1) * part)
}

/// Like [`even_part`], but when there are fewer units than ranks, several ranks hold the same unit (key-value heads).
pub fn shared_part(length: usize, unit: usize, rank: Rank) -> Result<Range<usize>, ShardError> {
    let units = units(length, unit)?;
    if units == 0 || units >= rank.count {
        return even_part(length, unit, rank);
    }
    if !rank.count.is_multiple_of(units) {
        return Err(ShardError::Uneven {
            units,
            unit,
            ranks: rank.count,
        });
    }
    let mine = rank.index * units / rank.count;
    Ok(mine * unit..(mine + 1) * unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(
        part: fn(usize, usize, Rank) -> Result<Range<usize>, ShardError>,
        length: usize,
        unit: usize,
        count: usize,
    ) -> Result<Vec<Range<usize>>, ShardError> {
        (0..count)
            .map(|index| part(length, unit, Rank { index, count }))
            .collect()
    }

    #[test]
    fn even_parts_cover_everything_once_and_cut_no_unit() {
        assert_eq!(parts(even_part, 12, 3, 1), Ok(vec![0..12; 1]));
        assert_eq!(parts(even_part, 12, 3, 2), Ok(vec![0..6, 6..12]));
        assert_eq!(
            parts(even_part, 12, 3, 4),
            Ok(vec![0..3, 3..6, 6..9, 9..12])
        );
        assert_eq!(parts(even_part, 0, 3, 4), Ok(vec![0..0; 4]));
    }

    #[test]
    fn what_cannot_be_divided_is_refused_with_the_numbers() {
        let uneven = ShardError::Uneven {
            units: 4,
            unit: 3,
            ranks: 3,
        };
        assert_eq!(parts(even_part, 12, 3, 3), Err(uneven));
        assert_eq!(
            parts(even_part, 13, 3, 1),
            Err(ShardError::NotWhole {
                length: 13,
                unit: 3
            })
        );
        assert_eq!(
            parts(even_part, 13, 0, 1),
            Err(ShardError::NotWhole {
                length: 13,
                unit: 0
            })
        );
        let uneven = ShardError::Uneven {
            units: 2,
            unit: 4,
            ranks: 3,
        };
        assert_eq!(parts(shared_part, 8, 4, 3), Err(uneven));
    }

    #[test]
    fn a_unit_is_shared_when_there_are_more_ranks_than_units() {
        assert_eq!(
            parts(shared_part, 8, 4, 4),
            Ok(vec![0..4, 0..4, 4..8, 4..8])
        );
        assert_eq!(parts(shared_part, 8, 4, 2), Ok(vec![0..4, 4..8]));
        assert_eq!(parts(shared_part, 4, 4, 3), Ok(vec![0..4; 3]));
    }
}
