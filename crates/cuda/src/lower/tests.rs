//! Lists of launches as text, from programs as text.

use std::sync::Arc;

use ops::op::HeadNorm;
use ops::program::{
    Attention, CacheDecl, Change, Elements, Leaves, Projected, Recorder, Sampled, VectorDecl,
    VectorId, VectorSource, WeightDecl, WeightId, WeightPart,
};
use ops::{Activation, Heads, Program, Recorded, StepClass};
use tensor::DType;

use super::{Launch, LaunchList, lower};

const HIDDEN: usize = 64;
const INNER: usize = 96;
const HEADS: Heads = Heads {
    query: 4,
    kv: 2,
    dim: 16,
};

fn weight(recorder: &mut Recorder, module: &str, rows: usize, cols: usize) -> WeightId {
    recorder.weight(WeightDecl {
        parts: vec![WeightPart {
            module: module.to_owned(),
            rows,
        }],
        cols,
    })
}

fn vector(recorder: &mut Recorder, cols: usize) -> VectorId {
    recorder.vector(VectorDecl {
        source: VectorSource::Stored(Vec::new(), Change::AsStored),
        rows: 1,
        cols,
        elements: Elements::Fixed(DType::F32),
    })
}

/// A decoder of one layer, with norms after its two parts where asked.
fn decoder(norms_around: bool) -> Program {
    let mut recorder = Recorder::default();
    let r = &mut recorder;
    let norm = vector(r, HIDDEN);
    let table = weight(r, "embed", 100, HIDDEN);
    let tokens = r.tokens();
    let residual = r.embed(tokens, table, 1.0);
    let x = r.rms_norm(residual, norm, 1e-6);
    let qkv = weight(r, "qkv", HEADS.query_width() + 2 * HEADS.kv_width(), HIDDEN);
    let qkv = r.linear(x, qkv, None);
    let cache = r.cache(CacheDecl {
        layer: 0,
        width: HEADS.kv_width(),
        window: None,
    });
    let head_norm = HeadNorm::<Recorded> {
        weight: norm,
        eps: 1e-6,
    };
    let attention = Attention {
        heads: HEADS,
        norms: Some([head_norm; 2]),
        table: norm,
        cache,
        scale: 0.25,
        window: None,
        soft_cap: None,
        sinks: None,
    };
    let mixed = r.attend(Projected::Together(qkv), &attention);
    let o = weight(r, "o", HIDDEN, HEADS.query_width());
    let mut delta = r.linear(mixed, o, None);
    if norms_around {
        delta = r.rms_norm(delta, norm, 1e-6);
    }
    let (residual, x) = r.add_rms_norm((delta, residual), norm, 1e-6);
    let gate_up = weight(r, "gate_up", 2 * INNER, HIDDEN);
    let gate_up = r.linear(x, gate_up, None);
    let inner = r.gated_activation(gate_up, Activation::Silu);
    let down = weight(r, "down", HIDDEN, INNER);
    let delta = r.linear(inner, down, None);
    let (_, hidden) = r.add_rms_norm((delta, residual), norm, 1e-6);
    let head = weight(r, "head", 100, HIDDEN);
    r.head(hidden, head);
    recorder.finish()
}

fn class(tokens: usize, sampled: Sampled, leaves: Leaves) -> StepClass {
    StepClass {
        tokens,
        is_exact: true,
        sampled,
        leaves,
        hidden: false,
    }
}

/// One line a launch.
fn lines(program: &Program, class: &StepClass) -> Vec<String> {
    let program = Arc::new(program.for_class(class));
    program.verify().expect("a program that can run");
    let list = lower(Arc::clone(&program), class, DType::BF16);
    let launches = list.launches.expect("a list");
    let launches = launches.downcast_ref::<LaunchList>().expect("of ours");
    let module = |weight: &WeightId| program.weights[weight.index()].parts[0].module.clone();
    let readers = |weights: &[WeightId]| weights.iter().map(module).collect::<Vec<_>>().join(" ");
    let launches = launches.launches.iter();
    launches
        .map(|launch| {
            let ops = launch.ops();
            let names = ops.iter().map(|&op| program.nodes[op].op.name());
            let names = names.collect::<Vec<_>>().join(" + ");
            match launch {
                Launch::GemmAddNorm { readers: all, .. }
                | Launch::GatedGemm { readers: all, .. } => {
                    format!("{names} -> [{}]", readers(all))
                }
                _ => names,
            }
        })
        .collect()
}

#[test]
fn a_decode_step_of_a_dense_layer_has_one_launch_for_each_gemm_and_what_surrounds_it() {
    let found = lines(&decoder(false), &class(64, Sampled::All, Leaves::Tokens));
    assert_eq!(
        found,
        [
            "resolve_tokens",
            "embed",
            "rms_norm",
            "linear",
            "rope_store_kv + attend",
            "linear + add_rms_norm -> [gate_up]",
            "linear + gated_activation -> [down]",
            "linear + add_rms_norm -> [head]",
            "linear + argmax",
        ]
    );
}

#[test]
fn logits_that_are_left_are_a_gemm_by_itself() {
    let found = lines(&decoder(false), &class(64, Sampled::All, Leaves::Logits));
    assert_eq!(found[8..], ["linear"]);
}

#[test]
fn hidden_rows_that_are_left_are_normalised_whoever_else_reads_them() {
    let class = StepClass {
        hidden: true,
        ..class(64, Sampled::All, Leaves::Logits)
    };
    let found = lines(&decoder(false), &class);
    assert_eq!(found[7], "linear + add_rms_norm -> []");
}

#[test]
fn rows_that_are_gathered_keep_fused_launches_of_the_last_layer() {
    let found = lines(
        &decoder(false),
        &class(64, Sampled::Some(8), Leaves::Logits),
    );
    assert_eq!(
        found[4..],
        [
            "rope_store_kv + attend",
            "gather_rows",
            "gather_rows",
            "linear + add_rms_norm -> [gate_up]",
            "linear + gated_activation -> [down]",
            "linear + add_rms_norm -> [head]",
            "linear",
        ]
    );
}

#[test]
fn a_step_of_which_nothing_is_sampled_ends_with_keys_and_values() {
    let found = lines(&decoder(false), &class(64, Sampled::None, Leaves::Logits));
    assert_eq!(
        found,
        [
            "resolve_tokens",
            "embed",
            "rms_norm",
            "linear",
            "rope_store_kv"
        ]
    );
}

#[test]
fn a_norm_after_a_part_keeps_its_gemm_and_the_residual_apart() {
    let found = lines(&decoder(true), &class(64, Sampled::All, Leaves::Tokens));
    assert_eq!(found[5..8], ["linear", "rms_norm", "add_rms_norm"]);
}

#[test]
fn memory_of_stages_that_drift_apart_is_taken_again_later() {
    let bytes = |tokens| {
        let class = class(tokens, Sampled::All, Leaves::Tokens);
        let program = Arc::new(decoder(false).for_class(&class));
        lower(program, &class, DType::BF16).layout.bytes()
    };
    // two rows are padded to four, as three are: only what drifts apart takes more
    assert!(bytes(2) > bytes(3), "{} and {}", bytes(2), bytes(3));
}
