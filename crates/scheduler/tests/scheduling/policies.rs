//! What shares a step, what is shared in memory, and who goes first.

use std::sync::Arc;

use kv::{Namespace, PageSize};
use sampling::{FinishReason, LogProbRequest};
use scheduler::{Event, Mix, NewSequence, Order, PriorityRules, Reuse, SchedulerConfig};

use crate::served::{Served, config, finished, prompt, sequence, shape};

#[test]
fn choices_of_one_request_compute_the_prompt_once() {
    let mut served = Served::new(config());
    for choice in 0..4 {
        served.admit(NewSequence {
            choice,
            ..sequence(prompt(1, 100), 3)
        });
    }
    let (plans, progress) = served.drain();
    assert_eq!(
        shape(&plans[0]),
        [(1, 0, 100, true)],
        "the others wait for the first"
    );
    assert_eq!(finished(&progress).len(), 4);
    let stats = served.scheduler.stats();
    assert_eq!(
        (stats.prompt_tokens, stats.cached_tokens),
        (100 + 3, 3 * 99)
    );
}

#[test]
fn the_next_turn_of_a_conversation_finds_the_last_one_cached() {
    let mut served = Served::new(config());
    served.admit(sequence(prompt(1, 50), 10));
    let (_, progress) = served.drain();
    let answer: Vec<_> = progress
        .iter()
        .flat_map(|progress| &progress.tokens)
        .copied()
        .collect();
    let next_turn: Vec<_> = prompt(1, 50).chain(answer).chain(prompt(2, 20)).collect();
    served.admit(sequence(next_turn, 1));
    let (_, progress) = served.drain();
    // the last token of the answer was sampled but never an input
    assert_eq!(progress[0].cached_tokens, 59);
}

#[test]
fn namespaces_and_a_switched_off_cache_share_nothing() {
    for (reuse, other) in [(Reuse::Off, ""), (Reuse::Prefixes, "other")] {
        let mut served = Served::new(SchedulerConfig { reuse, ..config() });
        served.admit(sequence(prompt(1, 50), 2));
        served.drain();
        served.admit(NewSequence {
            namespace: Namespace::new(other),
            ..sequence(prompt(1, 50), 2)
        });
        served.drain();
        assert_eq!(served.scheduler.stats().cached_tokens, 0);
    }
}

#[test]
fn a_page_that_agrees_in_part_is_copied() {
    let page_size = PageSize::new(16).unwrap();
    let mut served = Served::new(SchedulerConfig {
        page_size,
        ..config()
    });
    served.admit(sequence(prompt(1, 64), 1));
    served.drain();
    served.admit(sequence(prompt(1, 40).chain(prompt(2, 20)), 1));
    let (plan, progress) = served.step();
    assert_eq!(
        progress[0].cached_tokens, 40,
        "two pages shared, eight tokens copied"
    );
    assert_eq!(plan.copies.len(), 1);
    assert_eq!(plan.copies[0].tokens, 8);
    assert_eq!(plan.rows[0].pages.pages[2], plan.copies[0].to);
}

#[test]
fn a_long_prompt_is_split_beside_generating_rows() {
    let mut served = Served::new(SchedulerConfig {
        chunk: 16,
        run_ahead: 1,
        ..config()
    });
    served.admit(sequence(prompt(1, 4), 20));
    served.step();
    served.admit(sequence(prompt(2, 25), 20));
    served.admit(sequence(prompt(3, 10), 20));
    let steps: Vec<_> = (0..3).map(|_| shape(&served.step().0)).collect();
    assert_eq!(steps[0], [(1, 4, 1, true), (2, 0, 15, false)]);
    assert_eq!(
        steps[1],
        [(1, 5, 1, true), (2, 15, 10, true), (3, 0, 5, false)]
    );
    assert_eq!(
        steps[2],
        [(1, 6, 1, true), (2, 25, 1, true), (3, 5, 5, true)]
    );
}

#[test]
fn prefill_first_keeps_prompts_and_generation_apart() {
    let mix = Mix::PrefillFirst;
    let mut served = Served::new(SchedulerConfig {
        chunk: 16,
        run_ahead: 1,
        mix,
        ..config()
    });
    served.admit(sequence(prompt(1, 4), 20));
    served.step();
    served.admit(sequence(prompt(2, 25), 20));
    let steps: Vec<_> = (0..3).map(|_| shape(&served.step().0)).collect();
    assert_eq!(steps[0], [(2, 0, 16, false)]);
    assert_eq!(steps[1], [(2, 16, 9, true)]);
    assert_eq!(steps[2], [(1, 4, 1, true), (2, 25, 1, true)]);
}

#[test]
fn many_generating_rows_leave_a_quarter_of_the_chunk_to_prompts() {
    let config = SchedulerConfig {
        chunk: 8,
        run_ahead: 1,
        ..config()
    };
    let mut served = Served::new(SchedulerConfig {
        max_rows: 20,
        ..config
    });
    for number in 0..10 {
        served.admit(sequence(prompt(number, 1), 100));
    }
    while served.scheduler.stats().running < 10 {
        served.step();
    }
    served.admit(sequence(prompt(11, 6), 10));
    let (plan, _) = served.step();
    assert_eq!(plan.tokens(), 10 + 2);
    assert!(plan.tokens() <= served.scheduler.config().max_step_tokens());
}

#[test]
fn an_unsplit_prompt_longer_than_the_budget_goes_alone() {
    let config = SchedulerConfig {
        chunk: u32::MAX,
        max_prefill_tokens: 50,
        ..config()
    };
    let mut served = Served::new(SchedulerConfig {
        run_ahead: 1,
        ..config
    });
    served.admit(sequence(prompt(1, 30), 1));
    served.admit(sequence(prompt(2, 80), 1));
    served.admit(sequence(prompt(3, 10), 1));
    assert_eq!(shape(&served.step().0), [(1, 0, 30, true)]);
    assert_eq!(shape(&served.step().0), [(1, 0, 80, true)]);
    assert_eq!(shape(&served.step().0), [(1, 0, 10, true)]);
}

#[test]
fn a_prompt_is_scored_once_and_only_from_where_it_was_asked() {
    let wanted = LogProbRequest {
        start: Some(30),
        ..LogProbRequest::default()
    };
    let scored = |served: &mut Served| {
        let log_probs = Some(Arc::new(wanted.clone()));
        served.admit(NewSequence {
            log_probs,
            ..sequence(prompt(1, 50), 0)
        });
        let (_, progress) = served.drain();
        let ended = progress.last().unwrap();
        assert_eq!(
            (ended.output_tokens, ended.finish.clone()),
            (0, Some(FinishReason::Length))
        );
        let all = progress
            .iter()
            .flat_map(|progress| &progress.prompt_log_probs);
        let tokens: Vec<_> = all.map(|scored| scored.token).collect();
        (tokens, ended.cached_tokens)
    };
    let mut served = Served::new(SchedulerConfig {
        chunk: 7,
        ..config()
    });
    let expected: Vec<_> = prompt(1, 50).skip(31).collect();
    assert_eq!(scored(&mut served), (expected.clone(), 0));
    assert_eq!(
        scored(&mut served),
        (expected, 30),
        "what is not scored may be cached"
    );
}

/// A sequence whose prompt is scored from `start` on, with the likeliest token of each position: three numbers a token.
fn scored(number: u32, len: u32, start: u32) -> NewSequence {
    let wanted = LogProbRequest {
        start: Some(start),
        top: 1,
        ..LogProbRequest::default()
    };
    NewSequence {
        log_probs: Some(Arc::new(wanted)),
        ..sequence(prompt(number, len), 1)
    }
}

#[test]
fn a_prompt_is_split_where_a_step_has_no_room_for_more_of_its_scores() {
    for chunk in [100, u32::MAX] {
        let mut served = Served::new(SchedulerConfig {
            chunk,
            max_step_scores: 62,
            ..config()
        });
        served.admit(scored(1, 51, 9));
        served.admit(sequence(prompt(2, 30), 1));
        // tokens 10 to 29 are scored with 9 to 28; those of the other prompt need no scores
        let expected = [(1, 0, 29, false), (2, 0, 30, true)];
        assert_eq!(shape(&served.step().0), expected, "{chunk}");
        // two numbers are left, and a token takes three: the next scored prompt waits, and nobody passes it
        served.admit(scored(3, 20, 0));
        served.admit(sequence(prompt(4, 5), 1));
        assert_eq!(shape(&served.step().0), [(1, 29, 20, false)], "{chunk}");
        let expected = [(1, 49, 2, true), (2, 0, 20, true), (3, 0, 5, true)];
        assert_eq!(shape(&served.step().0), expected, "{chunk}");
    }
}

#[test]
fn what_no_step_has_room_to_score_is_refused_with_both_numbers() {
    let mut served = Served::new(SchedulerConfig {
        max_step_scores: 2,
        ..config()
    });
    let refused = served.scheduler.admit(scored(1, 50, 9)).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "the scores of a prompt token are 3 numbers, the limit is 2"
    );
    // nothing of the prompt is scored here
    served.admit(scored(1, 50, 49));
    assert_eq!(shape(&served.step().0), [(1, 0, 50, true)]);
}

#[test]
fn waiting_sequences_leave_in_the_order_of_the_policy() {
    let order_of = |order| {
        let mut served = Served::new(SchedulerConfig {
            max_rows: 1,
            order,
            ..config()
        });
        served.admit(sequence(prompt(4, 40), 1));
        served.drain();
        let mut ids = Vec::new();
        for (number, max_new, priority) in [(1, 5, 0), (2, 9, -1), (3, 1, 2), (4, 3, 1)] {
            let new = NewSequence {
                priority: Some(priority),
                ..sequence(prompt(number, 40), max_new)
            };
            ids.push(served.admit(new));
        }
        let (_, progress) = served.drain();
        let place = |id| ids.iter().position(|&known| known == id).unwrap() + 1;
        finished(&progress)
            .into_iter()
            .map(place)
            .collect::<Vec<_>>()
    };
    assert_eq!(order_of(Order::Arrival), [1, 2, 3, 4]);
    assert_eq!(order_of(Order::LongestPrefix), [4, 1, 2, 3]);
    assert_eq!(order_of(Order::LongestOutput), [2, 1, 4, 3]);
    let rules = PriorityRules::default();
    assert_eq!(order_of(Order::Priority(rules)), [3, 4, 1, 2]);
    let rules = PriorityRules {
        low_values_first: true,
        ..rules
    };
    assert_eq!(order_of(Order::Priority(rules)), [2, 1, 4, 3]);
}

#[test]
fn a_sequence_without_a_cached_prefix_does_not_wait_for_ever() {
    let order = Order::LongestPrefix;
    let mut served = Served::new(SchedulerConfig {
        max_rows: 1,
        order,
        ..config()
    });
    served.admit(sequence(prompt(1, 40), 1));
    served.drain();
    let unlucky = served.admit(sequence(prompt(2, 40), 1));
    for round in 0..1000 {
        served.admit(sequence(prompt(1, 40), 1));
        served.plan();
        if finished(&served.commit()).contains(&unlucky) {
            assert!(round > 200, "cached prefixes should go first for a while");
            return;
        }
    }
    panic!("it was passed over a thousand times");
}

#[test]
fn events_tell_what_a_log_line_needs() {
    let mut served = Served::new(SchedulerConfig {
        run_ahead: 1,
        ..config()
    });
    served.admit(sequence(prompt(1, 100), 5));
    served.step();
    served.admit(sequence(prompt(1, 80), 5));
    served.admit(sequence(prompt(2, 10), 5));
    served.scheduler.take_events();
    served.step();
    let events = served.scheduler.take_events();
    let [Event::Prefill(prefill), Event::Decode(decode)] = &events[..] else {
        panic!("a mixed step has two events: {events:?}");
    };
    assert_eq!(
        (
            prefill.new_sequences,
            prefill.new_tokens,
            prefill.cached_tokens
        ),
        (2, 11, 79)
    );
    assert_eq!((prefill.running, prefill.waiting), (1, 0));
    assert_eq!(
        (decode.rows, decode.running, decode.used_tokens),
        (1, 3, 100 + 1 + 1 + 10)
    );
    assert!((decode.token_usage - 0.112).abs() < 1e-9);
}
