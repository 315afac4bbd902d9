//! Who gives way to whom when priorities count.

use kv::Token;
use scheduler::{Event, NewSequence, Order, PriorityRules, SchedulerConfig, SequenceId};

use crate::served::{Served, config, finished, prompt, sequence};

const OUTPUTS: u32 = 50;

fn rules(low_values_first: bool, threshold: impl Into<Option<u32>>) -> PriorityRules {
    PriorityRules {
        low_values_first,
        preemption_threshold: threshold.into(),
        retract_least_important: false,
    }
}

fn served(rules: PriorityRules, max_rows: u32, pages: u32) -> Served {
    Served::new(SchedulerConfig {
        order: Order::Priority(rules),
        max_rows,
        pages,
        ..config()
    })
}

fn with_priority(number: Token, priority: Option<i32>) -> NewSequence {
    NewSequence {
        priority,
        ..sequence(prompt(number, 10), OUTPUTS)
    }
}

fn outranked(served: &mut Served) -> u32 {
    let events = served.scheduler.take_events();
    let count = events.iter().map(|event| match event {
        Event::Outrank(outrank) => outrank.sequences,
        _ => 0,
    });
    count.sum()
}

#[test]
fn a_full_queue_gives_up_its_least_important_and_youngest_for_a_strictly_more_important_one() {
    // whether low values go first, who waits, who comes, and which of those that wait leaves
    type Case<'a> = (bool, &'a [Option<i32>], Option<i32>, Option<usize>);
    let cases: [Case<'_>; 9] = [
        (false, &[Some(1)], Some(9), Some(0)),
        (false, &[Some(1)], Some(1), None),
        (false, &[Some(1)], Some(0), None),
        (
            false,
            &[Some(5), Some(1), Some(1), Some(7)],
            Some(2),
            Some(2),
        ),
        (false, &[Some(1), None, Some(-9)], Some(-8), Some(1)),
        (false, &[Some(-9)], None, None),
        (true, &[Some(9)], Some(1), Some(0)),
        (true, &[Some(1), Some(9), Some(3)], Some(8), Some(1)),
        (true, &[Some(9), None], Some(9), Some(1)),
    ];
    for (low_first, waiting, newcomer, expected) in cases {
        let mut served = served(rules(low_first, None), 1, 1000);
        let ids: Vec<SequenceId> = (1..)
            .zip(waiting)
            .map(|(number, &priority)| served.admit(with_priority(number, priority)))
            .collect();
        let leaves = served.scheduler.displaced_by(newcomer);
        let place = leaves.map(|id| ids.iter().position(|&known| known == id).unwrap());
        assert_eq!(place, expected, "{low_first} {waiting:?} {newcomer:?}");
    }
    let mut others = Served::new(config());
    others.admit(with_priority(1, Some(1)));
    assert_eq!(
        others.scheduler.displaced_by(Some(9)),
        None,
        "by arrival nobody leaves"
    );
}

#[test]
fn a_running_sequence_gives_way_only_beyond_the_threshold() {
    let cases = [
        (false, Some(10), Some(0), Some(10), 0),
        (false, Some(10), Some(0), Some(11), 1),
        (false, Some(10), Some(11), Some(0), 0),
        (false, Some(10), None, Some(-1000), 1),
        (false, Some(0), Some(1), Some(1), 0),
        (false, None, Some(0), Some(1000), 0),
        (true, Some(10), Some(11), Some(0), 1),
        (true, Some(10), Some(0), Some(11), 0),
    ];
    for (low_first, threshold, running, newcomer, expected) in cases {
        let mut served = served(rules(low_first, threshold), 1, 1000);
        let first = served.admit(with_priority(1, running));
        served.step();
        served.step();
        let second = served.admit(with_priority(2, newcomer));
        let (_, progress) = served.drain();
        let order = if expected == 0 {
            [first, second]
        } else {
            [second, first]
        };
        let case = format!("{low_first} {threshold:?} {running:?} {newcomer:?}");
        assert_eq!(finished(&progress), order, "{case}");
        assert_eq!(outranked(&mut served), expected, "{case}");
        let last = progress
            .iter()
            .rfind(|progress| progress.sequence == first)
            .unwrap();
        assert_eq!(
            (last.retractions, last.output_tokens),
            (expected, OUTPUTS),
            "{case}"
        );
    }
}

#[test]
fn no_more_sequences_give_way_than_it_takes() {
    // rows are short: one of three, the least important and youngest
    let mut rows = served(rules(false, 0), 3, 1000);
    let ids =
        [(1, 2), (2, 1), (3, 1)].map(|(number, p)| rows.admit(with_priority(number, Some(p))));
    rows.step();
    let wanted = rows.admit(with_priority(4, Some(9)));
    let (_, progress) = rows.drain();
    assert_eq!(outranked(&mut rows), 1);
    assert_eq!(finished(&progress), [ids[0], ids[1], wanted, ids[2]]);

    // pages are short: three rows of 60 tokens run, a fourth finds no room in 190 pages
    let mut pages = served(rules(false, 0), 8, 190);
    let ids =
        [(1, 1), (2, 2), (3, 3)].map(|(number, p)| pages.admit(with_priority(number, Some(p))));
    pages.step();
    let wanted = pages.admit(with_priority(4, Some(9)));
    let (_, progress) = pages.drain();
    assert_eq!(outranked(&mut pages), 1);
    assert_eq!(finished(&progress), [ids[2], ids[1], wanted, ids[0]]);
}

#[test]
fn nobody_gives_way_when_that_would_not_be_enough() {
    let mut served = served(rules(false, 0), 8, 200);
    let small = served.admit(NewSequence {
        priority: Some(1),
        ..sequence(prompt(1, 5), 5)
    });
    let large = served.admit(NewSequence {
        priority: Some(9),
        ..sequence(prompt(2, 100), 80)
    });
    served.step();
    let wanted = served.admit(with_priority(3, Some(8)));
    let (_, progress) = served.drain();
    assert_eq!(outranked(&mut served), 0);
    assert_eq!(finished(&progress), [small, large, wanted]);
}

#[test]
fn short_memory_takes_the_least_important_first_where_that_is_asked_for() {
    for (asked, retracted) in [(false, 1), (true, 0)] {
        let rules = PriorityRules {
            retract_least_important: asked,
            ..rules(false, None)
        };
        let mut served = Served::new(SchedulerConfig {
            order: Order::Priority(rules),
            pages: 60,
            conservativeness: 0.0,
            ..config()
        });
        // the first has more outputs, so that the usual policy takes the second
        let first = served.admit(NewSequence {
            priority: Some(1),
            ..sequence(prompt(1, 10), 40)
        });
        for _ in 0..5 {
            served.step();
        }
        let second = served.admit(NewSequence {
            priority: Some(2),
            ..sequence(prompt(2, 10), 30)
        });
        let (_, progress) = served.drain();
        let retractions = |id| {
            let last = progress.iter().rfind(|progress| progress.sequence == id);
            last.unwrap().retractions > 0
        };
        let found = [retractions(first), retractions(second)];
        assert_eq!(found, [retracted == 0, retracted == 1], "{asked}");
    }
}
