//! A program as a list of launches: rewrites fuse ops, one file each; what none of them matches is launched by itself.
//!
//! Rewrites ask for shapes and classes alone, so that memory is known before weights are loaded. Which kernel computes a
//! fused launch is looked up when it runs.

pub mod form;
mod gated_gemm;
mod gemm_add_norm;
mod gemm_argmax;
mod rope_attend;
mod run;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use ops::program::{Extra, Layout, Op, Spans, Val, WeightId};
use ops::{Access, Lowered, Program, StepClass};
use tensor::DType;

use crate::megakernel;

pub(crate) use form::{
    DeferredScale, GatedGemm, GemmAddNorm, GemmArgmax, GemmInput, RopeAttend, RowForm,
};

/// Places after its last reader at which memory is taken again where launches are stages of one kernel: they drift apart.
const DRIFT: usize = 3;

/// One launch; ops by their places in the program.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Launch {
    /// One op by itself.
    Op(usize),
    /// A GEMM whose results are added to the residual, which is normalised.
    GemmAddNorm {
        gemm: usize,
        norm: usize,
        /// Weights that the normalised rows are multiplied with; none where something else reads them.
        readers: Vec<WeightId>,
        /// Room for sums of squares, among the extras.
        squares: usize,
    },
    /// A GEMM that gives gates and what they gate.
    GatedGemm {
        gemm: usize,
        activation: usize,
        readers: Vec<WeightId>,
    },
    /// A GEMM of which each row takes its largest result.
    GemmArgmax { gemm: usize, argmax: usize },
    /// New keys and values, and attention to them.
    RopeAttend { store: usize, attend: usize },
}

impl Launch {
    /// Places of the ops that it computes, the last one last.
    fn ops(&self) -> Vec<usize> {
        match *self {
            Self::Op(op) => vec![op],
            Self::GemmAddNorm { gemm, norm, .. } => vec![gemm, norm],
            Self::GatedGemm {
                gemm, activation, ..
            } => vec![gemm, activation],
            Self::GemmArgmax { gemm, argmax } => vec![gemm, argmax],
            Self::RopeAttend { store, attend } => vec![store, attend],
        }
    }
}

/// What is run for steps of a class.
struct LaunchList {
    launches: Vec<Launch>,
}

/// A program while it is rewritten.
struct Rewriting<'p> {
    program: &'p Program,
    users: Vec<Vec<usize>>,
    /// The launch of each op that was fused, at its last op's place.
    fused: Vec<Option<Launch>>,
    taken: Vec<bool>,
    extras: usize,
}

impl Rewriting<'_> {
    /// The one op that reads a value, unless the step leaves it.
    fn only_user(&self, value: Val) -> Option<usize> {
        let is_output = self
            .program
            .outputs
            .iter()
            .any(|&(_, output)| output == value);
        match self.users[value.index()].as_slice() {
            &[user] if !is_output && !self.taken[user] => Some(user),
            _ => None,
        }
    }

    /// Weights of all products that read a value; none where something else reads it.
    fn readers(&self, value: Val) -> Vec<WeightId> {
        if self
            .program
            .outputs
            .iter()
            .any(|&(_, output)| output == value)
        {
            return Vec::new();
        }
        let users = self.users[value.index()].iter();
        let weights = users.map(|&user| match &self.program.nodes[user].op {
            Op::Linear(linear) => Some(linear.weight),
            _ => None,
        });
        weights.collect::<Option<Vec<_>>>().unwrap_or_default()
    }

    /// True when the first of two ops may be computed where the second stands: nothing between changes what it reads.
    fn may_wait(&self, first: usize, second: usize) -> bool {
        let inputs = self.program.nodes[first].op.inputs();
        self.program.nodes[first + 1..second].iter().all(|node| {
            let mut changes = false;
            node.op.visit(&mut |access| {
                if let Access::Update(update) = access {
                    changes |= inputs.contains(&update.from);
                }
            });
            !changes
        })
    }

    /// Computes two ops by one launch, at the place of the second.
    fn fuse(&mut self, first: usize, second: usize, launch: Launch) {
        (self.taken[first], self.taken[second]) = (true, true);
        self.fused[second] = Some(launch);
    }
}

/// Decides how steps of a class are launched.
pub(crate) fn lower(program: Arc<Program>, class: &StepClass, activation: DType) -> Lowered {
    let launches = rewrite(&program);
    let mut places = vec![0; program.nodes.len()];
    for (place, launch) in launches.iter().enumerate() {
        for op in launch.ops() {
            places[op] = place;
        }
    }
    let spans = Spans::of(&program, &places);
    let extras: Vec<Extra> = launches
        .iter()
        .enumerate()
        .filter_map(|(place, launch)| squares(&program, class, &places, (place, launch)))
        .collect();
    let distance = if class.tokens <= megakernel::MOST_ROWS {
        DRIFT
    } else {
        1
    };
    let layout = Layout::new(&program, class, activation, (&spans, &extras, distance));
    Lowered {
        class: *class,
        layout,
        activation,
        launches: Some(Box::new(LaunchList { launches })),
        program,
    }
}

/// Every op in one launch, in the order of their last ops.
fn rewrite(program: &Program) -> Vec<Launch> {
    let count = program.nodes.len();
    let mut rewriting = Rewriting {
        program,
        users: program.users(),
        fused: vec![None; count],
        taken: vec![false; count],
        extras: 0,
    };
    gemm_add_norm::rewrite(&mut rewriting);
    gated_gemm::rewrite(&mut rewriting);
    gemm_argmax::rewrite(&mut rewriting);
    rope_attend::rewrite(&mut rewriting);
    let Rewriting { fused, taken, .. } = rewriting;
    let all = fused.into_iter().enumerate();
    all.filter_map(|(place, fused)| match fused {
        Some(launch) => Some(launch),
        None => (!taken[place]).then_some(Launch::Op(place)),
    })
    .collect()
}

/// Room for sums of squares: from the launch that finds them to the last one that reads them.
fn squares(
    program: &Program,
    class: &StepClass,
    places: &[usize],
    (first, launch): (usize, &Launch),
) -> Option<Extra> {
    let &Launch::GemmAddNorm { norm, .. } = launch else {
        return None;
    };
    let Op::AddRmsNorm(op) = &program.nodes[norm].op else {
        return None;
    };
    let shape = program.value(op.out).shape;
    let sums = shape.cols.unwrap_or(1).div_ceil(DeferredScale::PART);
    let readers = program.nodes.iter().zip(places);
    let last = readers.filter(|(node, _)| node.op.reads(op.out));
    Some(Extra {
        bytes: class.rows(shape.axis).next_multiple_of(4) * sums * DType::F32.size(),
        first,
        last: last.map(|(_, &place)| place).max().unwrap_or(first),
    })
}
