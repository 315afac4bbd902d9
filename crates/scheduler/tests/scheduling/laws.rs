//! The laws of docs/execution.md, one small case each.

use std::sync::Arc;

use kv::PageSize;
use sampling::{Abort, FinishReason, SamplingOptions, SamplingParams, StopRules};
use scheduler::{Event, NewSequence, Row, RowInput, Scheduler, SchedulerConfig};

use crate::{
    device::VOCABULARY,
    served::{Served, config, finished, prompt, sequence, shape},
};

const CANCELLED: FinishReason = FinishReason::Abort(Abort::Cancelled);

#[test]
fn a_step_is_planned_before_the_token_it_continues_is_known() {
    let mut served = Served::new(config());
    served.admit(sequence(prompt(1, 5), 10));
    let first = served.plan().expect("the prompt");
    let second = served.plan().expect("the first token, not known yet");
    assert_eq!(shape(&first), [(1, 0, 5, true)]);
    assert_eq!(shape(&second), [(1, 5, 1, true)]);
    assert_eq!(second.rows[0].input, RowInput::LastSampled);
    assert_eq!(served.plan(), None, "two steps are in flight");
}

#[test]
fn a_row_that_will_reach_its_length_is_not_planned_again() {
    let mut served = Served::new(SchedulerConfig {
        run_ahead: 4,
        ..config()
    });
    let id = served.admit(sequence(prompt(1, 5), 2));
    assert!(served.plan().is_some() && served.plan().is_some());
    assert_eq!(served.plan(), None);
    assert!(finished(&served.commit()).is_empty());
    assert_eq!(finished(&served.commit()), [id]);
    assert_eq!(served.scheduler.stats().overshoot_tokens, 0);
}

#[test]
fn a_cancelled_row_keeps_its_pages_until_its_last_step_returns() {
    let mut served = Served::new(config());
    let id = served.admit(sequence(prompt(1, 5), 10));
    served.plan();
    served.plan();
    let progress = served
        .scheduler
        .cancel(id, CANCELLED)
        .expect("it was running");
    assert_eq!((progress.sequence, progress.finish), (id, Some(CANCELLED)));
    assert_eq!(served.scheduler.cancel(id, CANCELLED), None, "it ends once");
    assert_eq!(served.scheduler.stats().used_tokens, 6);
    assert!(served.commit().is_empty());
    assert_eq!(served.scheduler.stats().used_tokens, 6);
    assert!(served.commit().is_empty());
    let stats = served.scheduler.stats();
    assert_eq!(
        (stats.used_tokens, stats.evictable_tokens),
        (0, 5),
        "the prompt stays cached"
    );
    assert_eq!((stats.cancelled, stats.overshoot_tokens), (1, 2));
}

#[test]
fn a_row_is_closed_before_it_is_opened_again() {
    let mut served = Served::new(SchedulerConfig {
        max_rows: 1,
        run_ahead: 1,
        ..config()
    });
    served.admit(sequence(prompt(1, 5), 1));
    served.admit(sequence(prompt(2, 5), 1));
    served.step();
    let (second, _) = served.step();
    assert_eq!(second.closes, [Row(1)]);
    assert_eq!(second.opens[0].row, Row(1));
}

#[test]
fn what_can_never_fit_is_refused_with_both_numbers() {
    let refuse = |new: NewSequence| {
        let config = SchedulerConfig {
            pages: 25,
            page_size: PageSize::new(4).unwrap(),
            ..config()
        };
        Scheduler::new(config).admit(new).unwrap_err().to_string()
    };
    assert_eq!(
        refuse(sequence([], 1)),
        "the prompt has no tokens, the least is 1"
    );
    assert_eq!(
        refuse(sequence(prompt(1, 200), 1)),
        "the prompt has 200 tokens, the limit is 99"
    );
    assert_eq!(
        refuse(sequence(prompt(1, 50), 60)),
        "the prompt of 50 tokens and up to 60 new ones make 110, the limit is 99"
    );
}

#[test]
fn the_largest_sequence_that_is_admitted_runs_to_its_end() {
    for (pages, page_size) in [(25, 4), (100, 1), (2, 16)] {
        let page_size = PageSize::new(page_size).unwrap();
        let mut served = Served::new(SchedulerConfig {
            pages,
            page_size,
            ..config()
        });
        let limit = served.scheduler.config().max_sequence_tokens();
        let id = served.admit(sequence(prompt(1, 3), limit - 3));
        let (_, progress) = served.drain();
        assert_eq!(finished(&progress), [id]);
        assert_eq!(
            served.scheduler.stats().generated_tokens,
            u64::from(limit - 3)
        );
    }
}

#[test]
fn without_a_length_a_sequence_may_fill_the_context() {
    let mut served = Served::new(SchedulerConfig {
        context_length: 20,
        ..config()
    });
    let params = SamplingOptions {
        max_new_tokens: None,
        ignore_eos: true,
        ..SamplingOptions::default()
    };
    let params = SamplingParams::new(&params, VOCABULARY as u32).unwrap();
    let stop = Arc::new(StopRules::new(&params, &[]));
    served.admit(NewSequence {
        stop,
        ..sequence(prompt(1, 5), 1)
    });
    let (_, progress) = served.drain();
    assert_eq!(progress.last().unwrap().finish, Some(FinishReason::Length));
    assert_eq!(progress.last().unwrap().output_tokens, 14);
}

#[test]
fn short_memory_retracts_the_sequence_with_the_fewest_outputs_and_keeps_them() {
    let config = SchedulerConfig {
        pages: 60,
        conservativeness: 0.0,
        run_ahead: 2,
        ..config()
    };
    let mut served = Served::new(config);
    let first = served.admit(sequence(prompt(1, 5), 50));
    for _ in 0..5 {
        served.step();
    }
    let second = served.admit(sequence(prompt(2, 5), 30));
    let (_, progress) = served.drain();
    assert_eq!(finished(&progress), [first, second]);
    let ended = |id| {
        let mut of = progress
            .iter()
            .filter(move |progress| progress.sequence == id);
        of.next_back().unwrap()
    };
    assert_eq!(
        (ended(first).retractions, ended(first).output_tokens),
        (0, 50)
    );
    assert_eq!(
        (ended(second).retractions, ended(second).output_tokens),
        (1, 30)
    );
    let retractions: Vec<_> = served
        .scheduler
        .take_events()
        .into_iter()
        .filter_map(|event| match event {
            Event::Retract(event) => Some(event),
            _ => None,
        })
        .collect();
    assert_eq!(retractions.len(), 1);
    assert_eq!(retractions[0].sequences, 1);
    assert!(retractions[0].ratio_after > retractions[0].ratio_before);
}

#[test]
fn the_cache_is_flushed_only_when_idle() {
    let mut served = Served::new(config());
    served.admit(sequence(prompt(1, 50), 2));
    let refused = served.scheduler.flush().unwrap_err().to_string();
    assert_eq!(
        refused,
        "the cache cannot be flushed while 0 sequences run and 1 wait"
    );
    served.drain();
    assert_eq!(served.scheduler.stats().evictable_tokens, 51);
    served.scheduler.flush().unwrap();
    assert_eq!(served.scheduler.stats().evictable_tokens, 0);
}

#[test]
fn a_scheduler_may_be_dropped_while_sequences_run() {
    let mut served = Served::new(config());
    served.admit(sequence(prompt(1, 50), 5));
    served.step();
    served.plan();
}
