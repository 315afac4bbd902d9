use sampling::{LogProbRequest, TokenLogProbs};
use scheduler::Sample;
use testkit::golden::Golden;
use testkit::recorded::Ran;

use crate::served::{Asked, Output, Served, Stepped};

/// Splits no prompts.
const WHOLE: u32 = 256;

/// Every token's log-probability: the logits but for a constant.
fn all_scores(golden: &Golden, start: Option<u32>) -> LogProbRequest {
    LogProbRequest {
        start,
        top: golden.logits[0].len() as u32,
        token_ids: vec![1, 2],
    }
}

fn some_goldens() -> Vec<Golden> {
    let goldens = Golden::all().into_iter().enumerate();
    goldens
        .filter_map(|(place, golden)| (place % 5 == 0).then_some(golden))
        .collect()
}

/// A sequence for each start of its scores, of different lengths.
fn several<'a>(golden: &'a Golden, starts: &[Option<u32>]) -> Vec<Asked<'a>> {
    let prompt = golden.prompt();
    let prompts = [prompt, &prompt[..5], &prompt[3..], &prompt[1..]];
    let asked = prompts.into_iter().zip(starts);
    asked
        .map(|(prompt, &start)| Asked {
            prompt,
            new_tokens: 6,
            log_probs: Some(all_scores(golden, start)),
        })
        .collect()
}

/// The same without scores: nobody reads their logits.
fn silent(asked: Vec<Asked<'_>>) -> Vec<Asked<'_>> {
    let silence = |asked| Asked {
        log_probs: None,
        ..asked
    };
    asked.into_iter().map(silence).collect()
}

fn count(ran: &[Ran], op: &str) -> usize {
    ran.iter().filter(|ran| ran.op == op).count()
}

fn samples(step: &Stepped) -> usize {
    let rows = step.plan.rows.iter();
    rows.filter(|row| row.sample != Sample::No).count()
}

#[test]
fn a_prompt_in_chunks_gives_the_tokens_and_scores_of_a_whole_one() {
    for golden in some_goldens() {
        let name = &golden.name;
        let asked = several(&golden, &[None; 3]);
        let (whole, steps) = Served::start(&golden, WHOLE, &[]).run(&asked);
        assert!(steps[0].plan.tokens() > samples(&steps[0]) as u32, "{name}");
        for chunk in [3, 8] {
            let (chunked, steps) = Served::start(&golden, chunk, &[]).run(&asked);
            assert!(steps.iter().any(|step| samples(step) == 0), "{name}");
            assert!(chunked == whole, "{name} in chunks of {chunk}");
        }
        let expected = &golden.tokens[golden.prompt_length..];
        let common = expected.len().min(6);
        assert_eq!(whole[0].tokens[..common], expected[..common], "{name}");
    }
}

fn log_softmax(logits: &[f32], token: u32) -> f32 {
    let largest = logits.iter().copied().fold(f32::MIN, f32::max);
    let sum: f32 = logits.iter().map(|x| (x - largest).exp()).sum();
    logits[token as usize] - largest - sum.ln()
}

#[test]
fn scored_prompts_have_the_log_probabilities_of_the_reference_library_in_any_chunks() {
    for golden in some_goldens() {
        let name = &golden.name;
        // Some rows score, others do not, and those that do begin at different places.
        let asked = several(&golden, &[Some(0), None, Some(4)]);
        let (whole, _) = Served::start(&golden, WHOLE, &[]).run(&asked);
        let found = &whole[0].prompt_log_probs;
        assert_eq!(found.len(), golden.prompt_length - 1, "{name}");
        for (position, found) in found.iter().enumerate() {
            let token = golden.tokens[position + 1];
            let expected = log_softmax(&golden.logits[position], token);
            assert_eq!(found.token, token);
            let off = (found.log_prob - expected).abs();
            assert!(off < 1e-3, "{name}: position {position} is off by {off}");
        }
        for chunk in [3, 8] {
            let (chunked, _) = Served::start(&golden, chunk, &[]).run(&asked);
            assert!(chunked == whole, "{name} in chunks of {chunk}");
        }
        let unscored = several(&golden, &[None; 3]);
        let (unscored, _) = Served::start(&golden, WHOLE, &[]).run(&unscored);
        let sampled = |outputs: &[Output]| -> Vec<(Vec<u32>, Vec<TokenLogProbs>)> {
            let pairs = outputs.iter();
            pairs
                .map(|output| (output.tokens.clone(), output.log_probs.clone()))
                .collect()
        };
        assert!(sampled(&unscored) == sampled(&whole), "{name}: outputs");
    }
}

#[test]
fn a_step_runs_the_end_of_the_last_layer_for_those_who_sample() {
    for golden in some_goldens() {
        let name = &golden.name;
        let layers = models::open(&golden.model)
            .expect("a model")
            .spec
            .layers
            .len();
        let (_, steps) = Served::start(&golden, 7, &[]).run(&several(&golden, &[None; 3]));
        for step in &steps {
            let (sampled, tokens) = (samples(step), step.plan.tokens() as usize);
            let ends = step.ran.iter().filter(|ran| ran.op == "add_rms_norm");
            let ends: Vec<usize> = ends.map(|ran| ran.rows).collect();
            let mut expected = vec![tokens; 2 * (layers - 1)];
            expected.extend([sampled, sampled].iter().filter(|_| sampled > 0));
            assert_eq!(ends, expected, "{name}");
            // what is mixed and what it is added to; nothing where all go on, or none
            let gathers = if sampled == tokens || sampled == 0 {
                0
            } else {
                2
            };
            assert_eq!(count(&step.ran, "gather_rows"), gathers, "{name}");
        }
    }
}

/// From the inputs to the logits, at addresses that count from the first result.
fn computed(ran: &[Ran]) -> Vec<Ran> {
    let first = ran.iter().position(|ran| ran.op == "resolve_tokens");
    let ran = &ran[first.expect("a step")..];
    let end = ran[1..]
        .iter()
        .position(|ran| ran.op == "resolve_tokens" || ran.op == "sample");
    let ran = &ran[..end.map_or(ran.len(), |end| end + 1)];
    ran.iter()
        .map(|it| Ran {
            address: it.address.wrapping_sub(ran[0].address),
            ..*it
        })
        .collect()
}

#[test]
fn a_captured_step_is_the_one_that_runs_without_graphs() {
    for golden in some_goldens() {
        let scored = several(&golden, &[None; 3]);
        let captured = Served::start(&golden, WHOLE, &[3]).captured;
        // The step that leaves logits twice, for real and as it is captured, then the one that leaves tokens.
        let steps: Vec<&[Ran]> = captured
            .chunk_by(|_, next| next.op != "resolve_tokens")
            .collect();
        let [logits, tokens] = [&steps[..2], &steps[2..]];
        assert_eq!(tokens.len(), 2, "{}", golden.name);
        for (captured, asked) in [(logits, scored.clone()), (tokens, silent(scored))] {
            let (_, steps) = Served::start(&golden, WHOLE, &[]).run(&asked);
            let generating = steps.iter().find(|step| step.plan.tokens() == 3);
            let expected = computed(&generating.expect("three rows that generate").ran);
            for ran in captured {
                assert!(computed(ran) == expected, "{}", golden.name);
            }
        }
        assert_eq!(count(&captured, "gather_rows"), 0, "{}", golden.name);
    }
}

#[test]
fn rows_that_take_the_largest_logit_leave_tokens_and_nothing_else() {
    for golden in some_goldens() {
        let name = &golden.name;
        let scored = several(&golden, &[None; 3]);
        let run = |asked: &[Asked<'_>]| {
            let (outputs, steps) = Served::start(&golden, 7, &[]).run(asked);
            let tokens = outputs.into_iter().map(|output| output.tokens);
            (tokens.collect::<Vec<_>>(), steps)
        };
        let (expected, with_logits) = run(&scored);
        let (found, with_tokens) = run(&silent(scored));
        for (steps, scores) in [(&with_logits, true), (&with_tokens, false)] {
            for step in steps {
                let draws = usize::from(samples(step) > 0);
                assert_eq!(count(&step.ran, "sample"), draws, "{name}");
                let scored = count(&step.ran, "log_probs") > 0;
                assert_eq!(scored, scores && draws > 0, "{name}");
            }
        }
        assert_eq!(found, expected, "{name}");
    }
}

/// Where the last product of a step leaves logits.
fn left(ran: &[Ran]) -> usize {
    let end = ran.iter().position(|ran| ran.op == "sample");
    let mut products = ran[..end.unwrap_or(ran.len())].iter();
    let last = products.rfind(|ran| ran.op == "linear");
    last.expect("a step with a head").address
}

/// Where tokens are drawn from.
fn drawn(ran: &[Ran]) -> usize {
    let sample = ran.iter().find(|ran| ran.op == "sample");
    sample.expect("a step that samples").address
}

#[test]
fn the_results_of_a_padded_step_are_looked_for_where_its_graph_leaves_them() {
    for golden in some_goldens() {
        let mut eager = Served::start(&golden, WHOLE, &[]);
        let (_, steps) = eager.run(&several(&golden, &[None; 4]));
        let four = steps.iter().find(|step| step.plan.tokens() == 4);
        let four = &four.expect("four rows that generate").ran;
        assert_eq!(drawn(four), left(four), "{}", golden.name);
        let mut padded = Served::start(&golden, WHOLE, &[4]);
        let (_, steps) = padded.run(&several(&golden, &[None; 3]));
        let three = steps.iter().find(|step| step.plan.tokens() == 3);
        let three = &three.expect("three rows that generate").ran;
        assert_eq!(count(three, "resolve_tokens"), 0, "replayed");
        let mut captured = padded
            .captured
            .chunk_by(|_, next| next.op != "resolve_tokens");
        let with_logits = captured.next().expect("a captured step");
        assert_eq!(drawn(three), left(with_logits), "{}", golden.name);
    }
}
