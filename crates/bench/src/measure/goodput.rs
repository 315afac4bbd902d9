//! Goodput: requests that met every service objective.

use crate::python_text;
use std::fmt;
use std::str::FromStr;

/// What an objective is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ObjectiveKey {
    /// Time to the first token.
    Ttft,
    /// Time per output token after the first.
    Tpot,
    /// The whole request.
    E2el,
}

impl ObjectiveKey {
    /// The word used on command lines and in results.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ttft => "ttft",
            Self::Tpot => "tpot",
            Self::E2el => "e2el",
        }
    }
}

/// A bound in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Objective {
    /// On what.
    pub key: ObjectiveKey,
    /// The most.
    pub milliseconds: f64,
}

/// One or more objectives, all of which a good request meets.
#[derive(Clone, Debug, PartialEq)]
pub struct Objectives(Vec<Objective>);

/// A text that states no objectives.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum NotAnObjective {
    /// An unknown key.
    #[error("expected KEY:VALUE with KEY in ttft, tpot, e2el, got '{text}'")]
    Key {
        /// As given.
        text: String,
    },
    /// A bound that is no positive number.
    #[error("expected a finite float > 0, got '{text}'")]
    Value {
        /// As given.
        text: String,
    },
}

impl Objectives {
    /// Reads objectives, one per word; a later one replaces an earlier one of the same key.
    pub fn from_words<'a>(
        words: impl IntoIterator<Item = &'a str>,
    ) -> Result<Self, NotAnObjective> {
        let mut all: Vec<Objective> = Vec::new();
        for word in words {
            let objective: Objective = word.parse()?;
            match all.iter_mut().find(|known| known.key == objective.key) {
                Some(known) => *known = objective,
                None => all.push(objective),
            }
        }
        Ok(Self(all))
    }

    /// All of them.
    pub fn each(&self) -> &[Objective] {
        &self.0
    }
}

impl FromStr for Objective {
    type Err = NotAnObjective;

    fn from_str(text: &str) -> Result<Self, NotAnObjective> {
        let (key, value) = text.split_once(':').unwrap_or((text, ""));
        let key = match key {
            "ttft" => ObjectiveKey::Ttft,
            "tpot" => ObjectiveKey::Tpot,
            "e2el" | "e2e" => ObjectiveKey::E2el,
            _ => {
                return Err(NotAnObjective::Key {
                    text: text.to_owned(),
                });
            }
        };
        let number = value
            .trim()
            .parse()
            .ok()
            .filter(|number: &f64| number.is_finite() && *number > 0.0);
        let milliseconds = number.ok_or_else(|| NotAnObjective::Value {
            text: value.to_owned(),
        })?;
        Ok(Self { key, milliseconds })
    }
}

impl Objectives {
    /// Whether a request met all of them.
    pub fn met_by(&self, observed: &Observed) -> bool {
        self.0.iter().all(|objective| objective.met_by(observed))
    }
}

impl Objective {
    /// Whether a request met it.
    fn met_by(&self, observed: &Observed) -> bool {
        let seconds = match self.key {
            ObjectiveKey::Ttft => observed.ttft,
            ObjectiveKey::Tpot => observed.tpot,
            ObjectiveKey::E2el => observed.e2el,
        };
        seconds * 1000.0 <= self.milliseconds
    }
}

impl fmt::Display for Objectives {
    /// As `%g` would print the bounds.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, objective) in self.0.iter().enumerate() {
            let blank = if place > 0 { " " } else { "" };
            let bound = python_text::float(objective.milliseconds);
            let bound = bound.strip_suffix(".0").unwrap_or(&bound);
            write!(formatter, "{blank}{}:{bound}", objective.key.name())?;
        }
        Ok(())
    }
}

/// The times of one successful request, in seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Observed {
    /// To the first token.
    pub ttft: f64,
    /// Per output token after the first; zero for a single token.
    pub tpot: f64,
    /// The whole request.
    pub e2el: f64,
}

/// How many requests met the objectives.
#[derive(Clone, Debug, PartialEq)]
pub struct Goodput {
    /// The objectives in words.
    pub objectives: String,
    /// The objectives.
    pub bounds: Objectives,
    /// Good requests per second.
    pub per_second: f64,
    /// The share of all sent requests that met everything.
    pub attainment: f64,
    /// The share that met each.
    pub by_objective: Vec<(ObjectiveKey, f64)>,
}

impl Goodput {
    /// Goodput over the successful requests among `sent`.
    pub fn of(objectives: &Objectives, good: &[Observed], sent: usize, duration: f64) -> Self {
        let all = good
            .iter()
            .filter(|observed| objectives.met_by(observed))
            .count();
        let share = |count: usize| count as f64 / sent as f64;
        Self {
            objectives: objectives.to_string(),
            bounds: objectives.clone(),
            per_second: all as f64 / duration,
            attainment: share(all),
            by_objective: objectives
                .0
                .iter()
                .map(|objective| {
                    let met = good
                        .iter()
                        .filter(|observed| objective.met_by(observed))
                        .count();
                    (objective.key, share(met))
                })
                .collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objectives_are_read_and_written_back() {
        let objectives = Objectives::from_words(["ttft:500", "tpot:50.5", "ttft:400"]).unwrap();
        assert_eq!(objectives.to_string(), "ttft:400 tpot:50.5");
        for text in [
            "latency:5",
            "ttft",
            "ttft:",
            "tpot:-1",
            "e2el:inf",
            "e2el:x",
        ] {
            assert!(Objectives::from_words([text]).is_err(), "{text}");
        }
    }

    #[test]
    fn a_request_is_good_when_it_meets_everything() {
        let objectives = Objectives::from_words(["ttft:100", "tpot:10"]).unwrap();
        let observed = |ttft, tpot| Observed {
            ttft,
            tpot,
            e2el: 1.0,
        };
        let good = [
            observed(0.1, 0.01),
            observed(0.05, 0.02),
            observed(0.2, 0.0),
        ];
        let goodput = Goodput::of(&objectives, &good, 4, 2.0);
        assert!((goodput.per_second - 0.5).abs() < 1e-12);
        assert!((goodput.attainment - 0.25).abs() < 1e-12);
        let shares: Vec<f64> = goodput
            .by_objective
            .iter()
            .map(|(_, share)| *share)
            .collect();
        assert_eq!(shares, [0.5, 0.5]);
    }
}
