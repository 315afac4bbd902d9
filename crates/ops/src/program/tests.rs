//! Programs that cannot run are found, and passes keep what they must.

use tensor::DType;

use super::{
    Elements, InPlace, Input, Node, Op, Output, Program, Recorder, Sampled, StepClass, Val,
    VectorDecl, VectorSource, WeightDecl, WeightPart,
};
use crate::op::{AddRmsNorm, RmsNorm};
use crate::program::{Change, Leaves};

/// Embeddings, a product that is added to them, and a head.
fn small() -> Program {
    let mut recorder = Recorder::default();
    let weight = |rows| WeightDecl {
        parts: vec![WeightPart {
            module: format!("of {rows}"),
            rows,
        }],
        cols: 8,
    };
    let (table, square) = (weight(20), weight(8));
    let (table, square) = (recorder.weight(table), recorder.weight(square));
    let norm = recorder.vector(VectorDecl {
        source: VectorSource::Stored(vec![("norm".to_owned(), 8)], Change::AsStored),
        rows: 1,
        cols: 8,
        elements: Elements::Fixed(DType::F32),
    });
    let tokens = recorder.tokens();
    let residual = recorder.embed(tokens, table, 1.0);
    let delta = recorder.linear(residual, square, None);
    let (_, hidden) = recorder.add_rms_norm((delta, residual), norm, 1e-6);
    recorder.head(hidden, table);
    recorder.finish()
}

fn class(sampled: Sampled, leaves: Leaves) -> StepClass {
    StepClass {
        tokens: 16,
        is_exact: false,
        sampled,
        leaves,
        hidden: false,
    }
}

fn names(program: &Program) -> Vec<&'static str> {
    program.nodes.iter().map(|node| node.op.name()).collect()
}

#[test]
fn what_is_sampled_after_decides_what_is_computed() {
    let program = small();
    assert_eq!(program.verify(), Ok(()));
    let of = |sampled, leaves| {
        let program = program.for_class(&class(sampled, leaves));
        assert_eq!(program.verify(), Ok(()));
        names(&program)
    };
    let all = [
        "resolve_tokens",
        "embed",
        "linear",
        "add_rms_norm",
        "linear",
    ];
    assert_eq!(of(Sampled::All, Leaves::Logits), all);
    assert_eq!(of(Sampled::All, Leaves::Tokens)[5..], ["argmax"]);
    assert!(
        of(Sampled::None, Leaves::Logits).is_empty(),
        "there is no cache to fill"
    );
    // everything but the embeddings is computed of sampled rows alone
    assert_eq!(
        of(Sampled::Some(3), Leaves::Logits),
        [
            "resolve_tokens",
            "embed",
            "gather_rows",
            "linear",
            "add_rms_norm",
            "linear"
        ]
    );
}

#[test]
fn hidden_rows_that_are_read_stay_those_of_all_tokens() {
    let class = StepClass {
        hidden: true,
        ..class(Sampled::Some(3), Leaves::Logits)
    };
    let program = small().for_class(&class);
    assert_eq!(program.verify(), Ok(()));
    assert_eq!(
        names(&program)[2..],
        ["linear", "add_rms_norm", "gather_rows", "linear"]
    );
    assert!(program.output(Output::Hidden).is_some());
}

#[test]
fn the_head_alone_reads_hidden_rows_that_are_given() {
    let head = small().head();
    assert_eq!(head.verify(), Ok(()));
    assert_eq!(names(&head), ["linear"]);
    let rows = head.nodes[0].op.inputs()[0];
    assert_eq!(head.value(rows).input, Some(Input::HiddenRows));
}

/// What is said of the program after this damage to its op at a place.
fn complaint(place: usize, damage: impl FnOnce(&mut Op)) -> String {
    let mut program = small();
    damage(&mut program.nodes[place].op);
    program.verify().expect_err("a damaged program").to_string()
}

#[test]
fn a_program_that_cannot_run_is_named_by_its_op() {
    let found = complaint(2, |op| {
        let Op::Linear(linear) = op else {
            panic!("a product")
        };
        linear.x.value = linear.out;
    });
    assert_eq!(
        found,
        "op 2 (linear): value 4 is read and was not written, or has changed since"
    );
    let found = complaint(2, |op| {
        let Op::Linear(linear) = op else {
            panic!("a product")
        };
        linear.out = Val(3);
    });
    assert_eq!(found, "op 2 (linear): value 3 is written twice");
    let found = complaint(2, |op| {
        let Op::Linear(linear) = op else {
            panic!("a product")
        };
        linear.out = Val(99);
    });
    assert_eq!(found, "op 2 (linear): value 99 is not declared");
    let found = complaint(3, |op| {
        let Op::AddRmsNorm(AddRmsNorm { residual, .. }) = op else {
            panic!("a norm")
        };
        residual.to = Val(0);
    });
    assert_eq!(
        found,
        "op 3 (add_rms_norm): value 3 changes its shape to that of 0"
    );
}

#[test]
fn a_value_that_was_changed_in_place_is_gone() {
    let mut program = small();
    let Op::AddRmsNorm(AddRmsNorm {
        residual, weight, ..
    }) = program.nodes[3].op
    else {
        panic!("a norm")
    };
    let InPlace { from, .. } = residual;
    let out = Val(program.values.len() as u32);
    program.values.push(*program.value(from));
    let op = Op::RmsNorm(RmsNorm {
        x: from.into(),
        weight,
        eps: 1e-6,
        out,
    });
    program.nodes.insert(4, Node { op, layer: None });
    let flaw = program.verify().expect_err("a value that is gone");
    assert_eq!(
        flaw.what,
        "value 3 is read and was not written, or has changed since"
    );
}
