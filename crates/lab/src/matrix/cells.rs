//! The cells of a matrix, in order.

use super::plan::{Order, Plan, Servers};

/// One run to be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Cell {
    /// Its place in the order, from 0.
    pub(crate) place: usize,
    /// The subject's place in the plan.
    pub(crate) subject: usize,
    /// The load's place in the plan.
    pub(crate) load: usize,
    /// The how-manieth time, from 1.
    pub(crate) repeat: u32,
}

/// All cells of a plan. In the interleaved order every second round goes backwards, so that a drift
/// over time weighs on all subjects alike.
pub(crate) fn cells(plan: &Plan) -> Vec<Cell> {
    let (subjects, loads) = (plan.subjects.len(), plan.loads.len());
    let mut triples: Vec<(usize, usize, u32)> = Vec::new();
    match plan.order {
        Order::Listed => {
            for subject in 0..subjects {
                for load in 0..loads {
                    triples.extend((1..=plan.repeats).map(|repeat| (subject, load, repeat)));
                }
            }
        }
        Order::Interleaved => {
            for repeat in 1..=plan.repeats {
                let mut round: Vec<(usize, usize, u32)> = Vec::new();
                if plan.servers == Servers::PerTurn {
                    for subject in 0..subjects {
                        round.extend((0..loads).map(|load| (subject, load, repeat)));
                    }
                } else {
                    for load in 0..loads {
                        round.extend((0..subjects).map(|subject| (subject, load, repeat)));
                    }
                }
                if repeat % 2 == 0 {
                    round.reverse();
                }
                triples.extend(round);
            }
        }
    }
    let cells = triples
        .into_iter()
        .enumerate()
        .map(|(place, (subject, load, repeat))| Cell {
            place,
            subject,
            load,
            repeat,
        });
    cells.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(head: &str) -> String {
        let text = format!(
            "name = \"x\"\nrepeats = 2\n{head}\n[[subject]]\nname = \"A\"\ncommand = \"a\"\n\
             [[subject]]\nname = \"B\"\ncommand = \"b\"\n[[load]]\nname = \"x\"\nbench = \"\"\n\
             [[load]]\nname = \"y\"\nbench = \"\"\n"
        );
        let plan = Plan::parse(&text).unwrap();
        let names = cells(&plan).into_iter().map(|cell| {
            let (subject, load) = (&plan.subjects[cell.subject], &plan.loads[cell.load]);
            format!("{}{}{}", subject.name, load.name, cell.repeat)
        });
        names.collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn rounds_alternate_their_direction() {
        assert_eq!(order(""), "Ax1 Bx1 Ay1 By1 By2 Ay2 Bx2 Ax2");
        assert_eq!(
            order("servers = \"per-turn\""),
            "Ax1 Ay1 Bx1 By1 By2 Bx2 Ay2 Ax2"
        );
        assert_eq!(
            order("order = \"listed\""),
            "Ax1 Ax2 Ay1 Ay2 Bx1 Bx2 By1 By2"
        );
    }
}
