use super::*;
use crate::statistics::{Draw, Estimator};

fn samples(values: &[f64]) -> Vec<RunSample<'_>> {
    let runs = values.iter().map(|value| RunSample {
        value: *value,
        requests: None,
    });
    runs.collect()
}

fn answer(first: &[f64], second: &[f64], better: Better) -> Answer {
    Answer::unpaired(
        &samples(first),
        &samples(second),
        better,
        Demands::default(),
    )
    .unwrap()
}

#[test]
fn a_difference_within_the_noise_is_none() {
    let found = answer(&[5.55, 5.50, 5.74], &[5.68, 5.86, 5.62], Better::Higher);
    assert_eq!(found.verdict, Verdict::NoDifference);
    let welch = found.test.unwrap();
    assert!(
        (welch.t - 1.20).abs() < 0.01 && (welch.p - 0.3).abs() < 0.01,
        "{welch:?}"
    );
    assert_eq!(
        found.sentence(),
        "no difference shown: B is −2.8 % … +7.5 % against A (95 %), p = 0.29, unpaired; about \
         18 more runs an arm would resolve 2 %"
    );
}

#[test]
fn the_sentence_says_which_way_and_how_far() {
    let (slow, fast) = ([10.0, 10.1, 9.9, 10.0], [9.0, 9.1, 8.9, 9.0]);
    let sentence = |better, first: &[f64], second: &[f64]| answer(first, second, better).sentence();
    assert_eq!(
        sentence(Better::Lower, &slow, &fast),
        "better by 8.6–11.3 % (B is lower; 95 %, p < 0.001, unpaired)"
    );
    assert!(sentence(Better::Higher, &slow, &fast).starts_with("worse by 8.6–11.3 % (B is lower;"));
    assert!(sentence(Better::Higher, &fast, &slow).starts_with("better by 9."));
    assert!(sentence(Better::Neither, &fast, &slow).starts_with("different by 9."));
}

#[test]
fn one_run_an_arm_tells_nothing() {
    let found = answer(&[8.77], &[8.82], Better::Higher);
    assert_eq!(found.verdict, Verdict::CannotTell);
    assert_eq!(
        found.sentence(),
        "cannot be told: B is +0.6 % against A from 1 run of A and 1 run of B; without repeats there \
         is nothing to hold it against"
    );
    let requests: Vec<f64> = (0..50).map(|at| 1.0 + f64::from(at % 5)).collect();
    let run = [RunSample {
        value: 3.0,
        requests: Some((Estimator::Mean, &requests)),
    }];
    let found = Answer::unpaired(&run, &run, Better::Lower, Demands::default()).unwrap();
    assert_eq!(found.verdict, Verdict::CannotTell);
    assert!(
        found
            .sentence()
            .contains("requests within them spread by −")
    );
}

#[test]
fn runs_that_never_vary_show_no_difference() {
    let found = answer(&[2.0, 2.0], &[2.0, 2.0], Better::Higher);
    assert_eq!(found.verdict, Verdict::NoDifference);
    assert_eq!(
        Answer::unpaired(&[], &[], Better::Higher, Demands::default()),
        None
    );
    let zero = samples(&[0.0, 1.0]);
    assert_eq!(
        Answer::unpaired(&zero, &zero, Better::Higher, Demands::default()),
        None
    );
}

fn arm(draw: &mut Draw, runs: usize, level: f64, noise: f64) -> Vec<f64> {
    (0..runs)
        .map(|_| level * (noise * draw.normal()).exp())
        .collect()
}

#[test]
fn the_same_server_twice_is_seldom_called_different() {
    let mut draw = Draw::seeded(2026);
    for (runs, noise, pairs) in [(3, 0.02, 300), (5, 0.02, 150), (10, 0.05, 60)] {
        let alarms = (0..pairs).filter(|_| {
            let (a, b) = (
                arm(&mut draw, runs, 100.0, noise),
                arm(&mut draw, runs, 100.0, noise),
            );
            answer(&a, &b, Better::Higher).verdict != Verdict::NoDifference
        });
        let alarms = alarms.count();
        let stated = 0.05 * f64::from(pairs);
        let most = stated + 3.0 * (stated * 0.95).sqrt();
        assert!(
            alarms as f64 <= most,
            "{alarms} of {pairs} with {runs} runs"
        );
        assert!(alarms > 0, "none of {pairs}: the test is blind");
    }
}

#[test]
fn a_planted_difference_is_found_with_the_runs_that_were_predicted() {
    let mut draw = Draw::seeded(33);
    let (noise, planted) = (0.02, 0.03);
    let demands = Demands {
        resolve: planted,
        ..Demands::default()
    };
    let trials = 100;
    let mut found = 0;
    for _ in 0..trials {
        let pilot = [
            arm(&mut draw, 8, 100.0, noise),
            arm(&mut draw, 8, 100.0, noise),
        ];
        let before = Answer::unpaired(
            &samples(&pilot[0]),
            &samples(&pilot[1]),
            Better::Higher,
            demands,
        );
        let spread = pooled(
            &pilot[0].iter().map(|value| value.ln()).collect::<Vec<_>>(),
            &pilot[1].iter().map(|value| value.ln()).collect::<Vec<_>>(),
        );
        let runs = runs_needed(Design::Apart, spread.unwrap(), planted.ln_1p(), 0.95).unwrap();
        assert_eq!(before.unwrap().more_runs, Some(runs.saturating_sub(8)));
        let a = arm(&mut draw, runs, 100.0, noise);
        let b = arm(&mut draw, runs, 103.0, noise);
        found += usize::from(answer(&a, &b, Better::Higher).verdict == Verdict::Better);
    }
    // four of five are promised; the spread of the pilot costs a little
    assert!((68..=90).contains(&found), "{found} of {trials}");
}
