//! Which runs of two arms were made in one round, and may be held against each other alone.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::finding::{Finding, Kind};
use crate::run::{Evidence, Origin};

/// Why the runs of two arms do not pair by round.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Unpaired {
    /// Texts do not say which runs were made in one round.
    Imported,
    /// The arms were not measured in the same sessions.
    Sessions,
    /// The runs were not made round after round: the plan's order is `listed`, or a cell was made up
    /// for later.
    NotInRounds,
    /// Fewer than two rounds have a run of both.
    TooFew,
}

impl Unpaired {
    /// The reason in words.
    pub fn reason(self) -> &'static str {
        match self {
            Self::Imported => "imported runs have no rounds",
            Self::Sessions => "the arms share no session",
            Self::NotInRounds => "the runs were not made round after round",
            Self::TooFew => "fewer than two rounds have a run of both arms",
        }
    }
}

/// The runs of both arms in one round.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pair<'a> {
    pub(super) first: &'a Evidence,
    pub(super) second: &'a Evidence,
    /// Whether the second arm's run was made first.
    pub(super) reversed: bool,
}

/// A session and its round.
type RoundKey<'a> = (&'a str, u32);
/// When a run was made: by the clock, and by its place in the session within a second.
type Moment<'a> = (&'a str, usize);

/// The pairs of two arms, oldest first.
pub(super) fn pairs<'a>(
    first: &[&'a Evidence],
    second: &[&'a Evidence],
) -> Result<Vec<Pair<'a>>, Unpaired> {
    let (one, two) = (by_round(first)?, by_round(second)?);
    let sessions = |arm: &BTreeMap<RoundKey<'_>, &Evidence>| -> Vec<String> {
        let mut names: Vec<String> = arm
            .keys()
            .map(|(session, _)| (*session).to_owned())
            .collect();
        names.dedup();
        names
    };
    if sessions(&one) != sessions(&two) {
        return Err(Unpaired::Sessions);
    }
    let mut pairs: Vec<Pair<'a>> = Vec::new();
    for (key, first) in &one {
        if let Some(second) = two.get(key) {
            let reversed = moment(second) < moment(first);
            pairs.push(Pair {
                first,
                second,
                reversed,
            });
        }
    }
    pairs.sort_by_key(Pair::begun);
    if pairs.windows(2).any(|two| two[0].ended() >= two[1].begun()) {
        return Err(Unpaired::NotInRounds);
    }
    if pairs.len() < 2 {
        return Err(Unpaired::TooFew);
    }
    Ok(pairs)
}

impl<'a> Pair<'a> {
    fn begun(&self) -> Moment<'a> {
        moment(self.first).min(moment(self.second))
    }

    fn ended(&self) -> Moment<'a> {
        moment(self.first).max(moment(self.second))
    }
}

/// Runs by their round; two of one round are no rounds.
fn by_round<'a>(arm: &[&'a Evidence]) -> Result<BTreeMap<RoundKey<'a>, &'a Evidence>, Unpaired> {
    let mut rounds = BTreeMap::new();
    for one in arm {
        let Origin::Measured { session, .. } = &one.run.origin else {
            return Err(Unpaired::Imported);
        };
        if rounds
            .insert((session.as_str(), one.run.repeat), *one)
            .is_some()
        {
            return Err(Unpaired::NotInRounds);
        }
    }
    Ok(rounds)
}

fn moment(one: &Evidence) -> Moment<'_> {
    match &one.run.origin {
        Origin::Measured { started, cell, .. } => (started, *cell),
        Origin::Imported { file, line, .. } => (file, *line),
    }
}

/// Says which runs have no partner in their round and do not count.
pub(super) fn alone(arm: &[&Evidence], pairs: &[Pair<'_>], other: &str) -> Option<Finding> {
    let paired = |one: &Evidence| {
        let mut runs = pairs.iter().flat_map(|pair| [pair.first, pair.second]);
        runs.any(|run| run.run.id == one.run.id)
    };
    let alone: Vec<String> = arm
        .iter()
        .filter(|one| !paired(one))
        .map(|one| format!("run {} (round {})", one.run.short_id(), one.run.repeat))
        .collect();
    (!alone.is_empty()).then(|| {
        let (name, runs) = (&arm[0].run.subject.name, alone.join(", "));
        let text =
            format!("{runs} of {name} does not count: {other} has no finished run in that round");
        Finding::new(Kind::Failures, text)
    })
}
