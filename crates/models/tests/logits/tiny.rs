//! Every tiny model, on every device of the host.

use cpu::{Activations, CpuDevice, CpuOptions, KvPrecision};
use ops::{Device, ReferenceDevice};

use testkit::golden::{Golden, best, distance};
use testkit::runner::Runner;

/// A device and how far its logits may be from those of the reference library.
pub(crate) struct Case {
    pub(crate) name: &'static str,
    pub(crate) device: fn() -> Box<dyn Device>,
    tolerance: f64,
}

pub(crate) const CASES: [Case; 2] = [
    Case {
        name: "reference",
        device: || Box::new(ReferenceDevice::default()),
        tolerance: 1e-5,
    },
    Case {
        name: "cpu",
        device: || {
            Box::new(CpuDevice::new(&CpuOptions {
                activations: Activations::Exact,
                kv: KvPrecision::F32,
                ..CpuOptions::default()
            }))
        },
        tolerance: 1e-5,
    },
];

fn check(case: &Case, golden: &Golden) {
    let context = format!("{} on {}", golden.name, case.name);
    let device = (case.device)();
    let mut runner = Runner::load(device.as_ref(), &golden.model, 2);
    // The other sequence is a witness: it must disturb nothing.
    let (prompt, chosen) = golden.tokens.split_at(golden.prompt_length);
    let (first, rest) = prompt.split_at(prompt.len() / 3);
    let mut logits = runner.step(&[(1, first)]);
    let mixed = runner.step(&[(0, rest), (1, rest)]);
    logits.extend_from_slice(&mixed[rest.len()..]);
    for token in chosen {
        let (next, _) = best(logits.last().expect("a prompt"));
        assert_eq!(next, *token, "{context}: token {}", logits.len());
        logits.extend(runner.step(&[(1, &[next])]));
    }
    for (position, (found, expected)) in logits.iter().zip(&golden.logits).enumerate() {
        let distance = distance(found, expected);
        assert!(
            distance < case.tolerance,
            "{context}: position {position} is off by {distance:e}"
        );
    }
    assert_eq!(logits.len(), golden.logits.len());
}

#[test]
fn logits_and_greedy_tokens_equal_those_of_the_reference_library() {
    for golden in Golden::all() {
        for case in &CASES {
            check(case, &golden);
        }
    }
}

#[test]
fn a_prompt_gives_the_same_bits_alone_in_chunks_and_in_a_batch() {
    for golden in Golden::all().iter().step_by(3) {
        for case in &CASES {
            let (prompt, device) = (golden.prompt(), (case.device)());
            let runner = |rows| Runner::load(device.as_ref(), &golden.model, rows);
            let whole = runner(1).step(&[(0, prompt)]);
            let (mut chunked, mut in_chunks) = (Vec::new(), runner(1));
            for chunk in prompt.chunks(5) {
                chunked.extend(in_chunks.step(&[(0, chunk)]));
            }
            assert!(
                whole == chunked,
                "{} on {}: chunks differ",
                golden.name,
                case.name
            );
            let additions: Vec<(usize, &[u32])> = (0..5)
                .map(|row| (row, &prompt[..prompt.len() - (row + 2) % 5]))
                .collect();
            let batch = runner(5).step(&additions);
            let before: usize = additions[..3].iter().map(|(_, tokens)| tokens.len()).sum();
            let mine = &batch[before..before + prompt.len()];
            assert!(
                whole == mine,
                "{} on {}: a batch differs",
                golden.name,
                case.name
            );
        }
    }
}

#[test]
fn activations_rounded_to_bytes_stay_close_to_the_reference_library() {
    for golden in Golden::all() {
        let device = CpuDevice::new(&CpuOptions::default());
        let mut runner = Runner::load(&device, &golden.model, 1);
        let logits = runner.step(&[(0, &golden.tokens)]);
        let distances = logits
            .iter()
            .zip(&golden.logits)
            .map(|(f, e)| distance(f, e));
        let mean = distances.sum::<f64>() / logits.len() as f64;
        assert!(mean < 0.05, "{} is off by {mean:e} on average", golden.name);
    }
}
