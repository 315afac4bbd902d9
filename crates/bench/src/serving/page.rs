//! `--plot`: the page of a run.

use super::error::ServingError;
use super::options::Options;
use super::prepare::Prepared;
use super::run::Ran;
use super::strict_result::StrictResult;
use super::surroundings::Surroundings;

/// Writes the page when it is asked for.
pub(super) fn write(
    _options: &Options,
    _prepared: &Prepared,
    _ran: &Ran,
    _surroundings: &mut Surroundings<'_>,
) -> Result<(), ServingError> {
    Ok(())
}

/// Writes the page of a strict run when it is asked for.
pub(super) fn write_strict(
    _options: &Options,
    _prepared: &Prepared,
    _result: &StrictResult,
    _surroundings: &mut Surroundings<'_>,
) -> Result<(), ServingError> {
    Ok(())
}
