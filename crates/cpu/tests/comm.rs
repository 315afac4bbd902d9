//! Ranks as threads.

use std::thread::ScopedJoinHandle;

use cpu::{CpuDevice, CpuOptions, ThreadComm};
use ops::{AllGather, AllReduce, Comm as _, OpError, conformance};
use tensor::ViewMut;

/// Runs the same on as many threads as there are ranks, and gives what each of them answers.
fn on_ranks<T: Send>(ranks: usize, run: impl Fn(ThreadComm) -> T + Sync) -> Vec<T> {
    let run = &run;
    std::thread::scope(|scope| {
        let group = ThreadComm::group(ranks).into_iter();
        let threads: Vec<_> = group.map(|comm| scope.spawn(move || run(comm))).collect();
        let answers = threads.into_iter().map(ScopedJoinHandle::join);
        answers.map(|answer| answer.expect("no panic")).collect()
    })
}

fn sum(comm: &ThreadComm, values: &mut [f32]) -> Result<(), OpError> {
    comm.all_reduce(AllReduce {
        values: ViewMut::of(values),
    })
}

#[test]
fn ranks_add_and_gather_as_they_should() {
    let options = CpuOptions {
        threads: 1,
        ..CpuOptions::default()
    };
    for ranks in [1, 2, 3] {
        let reports = on_ranks(ranks, |comm| {
            conformance::collectives(&CpuDevice::new(&options), &comm)
        });
        assert_eq!(reports.len(), ranks);
        for report in reports {
            assert!(report.outcomes.len() > 50);
            report.assert();
        }
    }
}

#[test]
fn meetings_follow_each_other_without_a_mix_up() {
    let wrong = on_ranks(4, |comm| {
        let rank = comm.rank() as f32;
        let wrong = (0..2000).filter(|&round| {
            let mut values = vec![rank + round as f32; 1 + round % 7];
            sum(&comm, &mut values).expect("everybody is there");
            let expected = 6.0 + 4.0 * round as f32;
            values
                .iter()
                .any(|value| value.to_bits() != f32::to_bits(expected))
        });
        wrong.count()
    });
    assert_eq!(wrong, [0; 4]);
}

#[test]
fn nobody_waits_for_a_rank_that_is_gone() {
    let said = on_ranks(3, |comm| {
        let mut values = [1.0; 4];
        sum(&comm, &mut values).expect("all three are there");
        if comm.rank() == 1 {
            return String::new();
        }
        let mut told = || {
            sum(&comm, &mut values)
                .expect_err("one is gone")
                .to_string()
        };
        // a rank that asks again does not stand for the one that is gone
        let first = told();
        assert_eq!([told(), told()], [first.clone(), first.clone()]);
        first
    });
    let gone = "cpu failed: rank 1 is no longer there";
    assert_eq!(said, [gone, "", gone]);
}

#[test]
fn ranks_that_do_not_agree_are_told() {
    let said = on_ranks(2, |comm| {
        let mut values = vec![1.0; 3 + comm.rank()];
        sum(&comm, &mut values)
            .expect_err("three and four")
            .to_string()
    });
    assert_eq!(
        said[0],
        "all_reduce: what a rank has is (1, 4), expected (1, 3)"
    );
    assert_eq!(
        said[1],
        "all_reduce: what a rank has is (1, 3), expected (1, 4)"
    );
    let said = on_ranks(2, |comm| {
        let (mut values, mut all) = ([1.0f32; 3], [0.0f32; 6]);
        let ran = if comm.rank() == 0 {
            sum(&comm, &mut values)
        } else {
            comm.all_gather(AllGather {
                x: tensor::View::of(&values),
                out: ViewMut::of_matrix(&mut all, 2, 3),
            })
        };
        ran.expect_err("two ops").to_string()
    });
    assert_eq!(
        said[0],
        "cpu failed: one rank wants all_reduce and another all_gather"
    );
    assert_eq!(
        said[1],
        "cpu failed: one rank wants all_gather and another all_reduce"
    );
}
