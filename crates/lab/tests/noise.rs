//! The same server twice, and one that is a little slower: measured over a socket in rounds, compared as
//! the laboratory compares. The noise of a run is scripted and its seeds are fixed. What verdicts are
//! worth over thousands of sessions is in power.rs.

use std::fs;
use std::io::sink;
use std::path::Path;
use std::time::Duration;

use bench::serving::{self, Surroundings};
use bench::vocabulary::Vocabulary;
use lab::compare::{Manner, compare};
use lab::import;
use lab::metric::Metric;
use lab::run::{Evidence, Origin, ServerUse};
use lab::statistics::Draw;
use lab::verdict::{Answer, Demands, Verdict};
use testkit::scripted_server::{Generation, Request, Script, ScriptedServer, Voice, standard};

/// How much runs of one server differ from each other.
const NOISE: f64 = 0.03;

fn tokenizer() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../bench/tests/data/tokenizer");
    path.display().to_string()
}

/// One run on a server whose tokens come at this pace, in this round and cell of a session.
fn measured(
    (arm, slowness): (&str, f64),
    (round, cell): (usize, usize),
    folder: &Path,
) -> Evidence {
    let model = tokenizer();
    let gap = Duration::from_secs_f64(0.004 * slowness);
    let answer = move |request: &Request| {
        standard(request, &model).unwrap_or_else(|| {
            let body = request.json();
            let asked = body["sampling_params"]["max_new_tokens"]
                .as_u64()
                .unwrap_or(1);
            let generation = Generation::steady(Voice::Native, asked as usize, gap, gap);
            generation.script()
        })
    };
    let answer = move |request: &Request| -> Script { answer(request) };
    let server = ScriptedServer::start(answer).expect("there is a free port");
    let result = folder.join("result.jsonl");
    fs::remove_file(&result).ok();
    let line = format!(
        "--backend sglang --base-url {} --dataset-name random-ids --random-input-len 8 \
         --random-output-len 8 --random-range-ratio 1 --num-prompts 8 --max-concurrency 8 \
         --disable-tqdm --strict --output-file {}",
        server.base_url(),
        result.display()
    );
    let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
    let mut surroundings = Surroundings {
        openai_api_key: None,
        api_key: None,
        flush_always: false,
        profile_folder: None,
        tokenizers: &Vocabulary::from_path,
        out: Box::new(sink()),
        err: Box::new(sink()),
        terminal: false,
        catch_interrupts: false,
    };
    assert_eq!(serving::main(&words, &mut surroundings), 0);
    let text = fs::read_to_string(&result).expect("the client wrote its result");
    let mut run = import::runs("result.jsonl", &text).remove(0).run;
    arm.clone_into(&mut run.subject.name);
    run.repeat = round as u32 + 1;
    run.origin = Origin::Measured {
        session: "noise".to_owned(),
        cell,
        started: String::new(),
        ready_after: 0.0,
        ready_by: String::new(),
        ended_by_itself: None,
        server: ServerUse::Fresh,
    };
    Evidence {
        run,
        records: Vec::new(),
    }
}

/// Runs of two arms in turns (A B B A …), the second slower by a factor.
fn arms(draw: &mut Draw, runs: usize, slower: f64) -> (Vec<Evidence>, Vec<Evidence>) {
    let folder = tempfile::tempdir().expect("there is room for a folder");
    let mut arms = (Vec::new(), Vec::new());
    for repeat in 0..runs {
        let mut turn = [false, true];
        if repeat % 2 == 1 {
            turn.reverse();
        }
        for (place, second) in turn.into_iter().enumerate() {
            let noise = (NOISE * draw.normal()).exp();
            let cell = (repeat, repeat * 2 + place);
            if second {
                arms.1
                    .push(measured(("B", noise * slower), cell, folder.path()));
            } else {
                arms.0.push(measured(("A", noise), cell, folder.path()));
            }
        }
    }
    arms
}

fn answer((first, second): &(Vec<Evidence>, Vec<Evidence>), resolve: f64) -> Answer {
    let metrics: Vec<_> = Metric::named("request_throughput").into_iter().collect();
    let demands = Demands {
        resolve,
        ..Demands::default()
    };
    let manner = Manner {
        demands,
        ..Manner::default()
    };
    let mut found = compare(first, second, &metrics, &manner);
    found.remove(0).answers.remove(0).answer
}

/// How many of so many pairs of equal arms are called different.
fn alarms(pairs: usize, runs: usize, seed: u64) -> usize {
    let mut draw = Draw::seeded(seed);
    let answers = (0..pairs).map(|_| answer(&arms(&mut draw, runs, 1.0), 0.03));
    answers
        .filter(|answer| answer.verdict != Verdict::NoDifference)
        .count()
}

#[test]
fn equal_servers_are_not_called_different_and_a_slow_one_is() {
    // more than one alarm of four happens by chance once in seventy times
    assert!(alarms(4, 3, 5) <= 1);
    let mut draw = Draw::seeded(8);
    // so slow that it shows on a machine that is busy with something else
    let slow = answer(&arms(&mut draw, 5, 2.0), 0.03);
    assert_eq!(slow.verdict, Verdict::Worse, "{}", slow.sentence());
}

#[test]
#[ignore = "takes minutes: cargo nextest run -p lab --test noise --run-ignored all"]
fn twenty_equal_pairs_and_a_planted_difference_of_three_percent() {
    let false_alarms = alarms(20, 5, 2026);
    // one is the stated level; five or more come by chance once in four hundred times
    assert!(false_alarms <= 4, "{false_alarms} of 20");
    let mut draw = Draw::seeded(77);
    let pilot = answer(&arms(&mut draw, 8, 1.0), 0.03);
    let runs = 8 + pilot.more_runs.expect("the pilot varies");
    let mut found = 0;
    let trials = 5;
    for _ in 0..trials {
        let planted = answer(&arms(&mut draw, runs, 1.03), 0.03);
        found += usize::from(planted.verdict == Verdict::Worse);
    }
    // four of five are promised
    assert!(
        found >= 3,
        "{found} of {trials} with {runs} runs an arm; {false_alarms} false alarms"
    );
    eprintln!(
        "{false_alarms} false alarms of 20; planted 3 % found in {found} of {trials} with {runs} runs an arm"
    );
}
