//! Steps of which not every token's hidden row is wanted.

use ops::ReferenceDevice;
use testkit::golden::Golden;
use testkit::recorded::{Ran, recorded};
use testkit::runner::Runner;

use crate::tiny::CASES;

#[test]
fn wanted_tokens_have_the_logits_they_have_among_all() {
    for golden in Golden::all().iter().step_by(3) {
        for case in &CASES {
            let (prompt, device) = (golden.prompt(), (case.device)());
            let additions = [(1, prompt), (0, &prompt[..3]), (2, &prompt[1..])];
            let all = Runner::load(device.as_ref(), &golden.model, 3).step(&additions);
            let last = all.len() as u32 - 1;
            let lasts = [prompt.len() as u32 - 1, prompt.len() as u32 + 2, last];
            for wanted in [&lasts[..], &[last], &[0, 1, last], &[2, 0]] {
                let mut runner = Runner::load(device.as_ref(), &golden.model, 3);
                let found = runner.step_for(&additions, wanted);
                let expected: Vec<_> = wanted.iter().map(|&at| all[at as usize].clone()).collect();
                let context = format!("{} on {}", golden.name, case.name);
                assert!(found == expected, "{context}: {wanted:?} differ");
            }
        }
    }
}

#[test]
fn a_chunk_of_which_nothing_is_wanted_leaves_what_the_next_one_needs() {
    for golden in Golden::all().iter().step_by(3) {
        for case in &CASES {
            let (prompt, device) = (golden.prompt(), (case.device)());
            let whole = Runner::load(device.as_ref(), &golden.model, 1).step(&[(0, prompt)]);
            let (first, rest) = prompt.split_at(prompt.len() / 2);
            let mut runner = Runner::load(device.as_ref(), &golden.model, 1);
            assert!(runner.step_for(&[(0, first)], &[]).is_empty());
            let found = runner.step_for(&[(0, rest)], &[rest.len() as u32 - 1]);
            let context = format!("{} on {}", golden.name, case.name);
            assert!(found[0] == whole[prompt.len() - 1], "{context}");
        }
    }
}

/// Rows of every op with this name.
fn rows_of(ran: &[Ran], op: &str) -> Vec<usize> {
    let named = ran.iter().filter(|ran| ran.op == op);
    named.map(|ran| ran.rows).collect()
}

#[test]
fn the_last_layer_goes_on_with_the_wanted_tokens_alone() {
    let goldens = Golden::all();
    for golden in goldens.iter().step_by(4) {
        let (prompt, name) = (golden.prompt(), &golden.name);
        let tokens = prompt.len();
        let run = |wanted: &[u32]| {
            let (device, log) = recorded(ReferenceDevice::default());
            let mut runner = Runner::load(&device, &golden.model, 1);
            runner.step_for(&[(0, prompt)], wanted);
            log.take()
        };
        let layers = models::open(&golden.model)
            .expect("a model")
            .spec
            .layers
            .len();
        for wanted in [&[1, 3][..], &[]] {
            let (ran, count) = (run(wanted), wanted.len());
            // the ends of attention and of the gated layer, each in all but the last layer, then there
            let mut ends = vec![tokens; 2 * (layers - 1)];
            ends.extend([count, count].iter().filter(|_| count > 0));
            assert_eq!(rows_of(&ran, "add_rms_norm"), ends, "{name}: {wanted:?}");
            let stores_only = usize::from(count == 0);
            let attends = vec![tokens; layers - stores_only];
            assert_eq!(rows_of(&ran, "attend"), attends, "{name}: {wanted:?}");
            let stores = vec![tokens; layers];
            assert_eq!(rows_of(&ran, "rope_store_kv"), stores, "{name}: {wanted:?}");
            let gathers = vec![count; 2 * usize::from(count > 0)];
            assert_eq!(rows_of(&ran, "gather_rows"), gathers, "{name}: {wanted:?}");
        }
    }
}
