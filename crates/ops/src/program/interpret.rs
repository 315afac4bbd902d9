//! A program run op by op.

use std::any::Any;
use std::sync::Arc;

use tensor::{DType, ViewMut};

use super::bind::matrix;
use super::{Arena, Axis, Binder, Layout, Op, Output, Program, Spans, Step, StepClass, Weights};
use crate::op::Linear;
use crate::{Kernels, OpError, Recorded, Sample};

/// What a device made of a program for steps of one class.
pub struct Lowered {
    /// What is computed.
    pub program: Arc<Program>,
    /// For which steps.
    pub class: StepClass,
    /// Where values lie.
    pub layout: Layout,
    /// Type of activations.
    pub activation: DType,
    /// The device's own list of launches; none where ops run one by one.
    pub launches: Option<Box<dyn Any + Send + Sync>>,
}

impl Lowered {
    /// Every op by itself.
    pub fn plain(program: Arc<Program>, class: &StepClass, activation: DType) -> Self {
        let places: Vec<usize> = (0..program.nodes.len()).collect();
        let spans = Spans::of(&program, &places);
        let layout = Layout::new(&program, class, activation, (&spans, &[], 1));
        Self {
            program,
            class: *class,
            layout,
            activation,
            launches: None,
        }
    }

    /// The memory of names in the program.
    pub fn binder<'a>(&'a self, weights: &'a Weights, step: &'a Step<'a>) -> Binder<'a> {
        Binder {
            program: &self.program,
            layout: &self.layout,
            weights,
            step,
            activation: self.activation,
            part: 0,
        }
    }

    /// What the step left, of so many tokens of which so many are sampled after.
    pub fn output<'a>(
        &self,
        output: Output,
        arena: Arena<'a>,
        (tokens, sampled): (usize, usize),
    ) -> Option<ViewMut<'a>> {
        let value = self.program.output(output)?;
        let decl = self.program.value(value);
        let rows = match decl.shape.axis {
            Axis::Sampled => sampled,
            Axis::Tokens | Axis::TableRows => tokens,
        };
        let shape = match decl.shape.cols {
            Some(cols) => (rows, cols),
            None => (1, rows),
        };
        let offset = self.layout.offset(value)?;
        Some(matrix(
            arena,
            offset,
            shape,
            decl.elements.dtype(self.activation),
        ))
    }

    /// Runs every op by itself.
    pub fn interpret(
        &self,
        kernels: &dyn Kernels,
        weights: &Weights,
        step: &Step<'_>,
    ) -> Result<(), OpError> {
        let mut binder = self.binder(weights, step);
        for node in &self.program.nodes {
            binder.run(kernels, &node.op)?;
        }
        Ok(())
    }
}

impl Binder<'_> {
    /// Runs one op by itself.
    pub fn run(&mut self, kernels: &dyn Kernels, op: &Op) -> Result<(), OpError> {
        match op {
            Op::ResolveTokens(op) => kernels.resolve_tokens(op.bind(self)),
            Op::Embed(op) => kernels.embed(op.bind(self)),
            Op::RmsNorm(op) => kernels.rms_norm(op.bind(self)),
            Op::AddRmsNorm(op) => kernels.add_rms_norm(op.bind(self)),
            Op::Linear(op) => self.each_part(op, |part| kernels.linear(part)),
            Op::RopeStoreKv(op) => kernels.rope_store_kv(op.bind(self)),
            Op::Attend(op) => kernels.attend(op.bind(self)),
            Op::GatedActivation(op) => kernels.gated_activation(op.bind(self)),
            Op::GatherRows(op) => kernels.gather_rows(op.bind(self)),
            Op::Sample(op) => {
                let Sample { logits, draw } = op.bind(self);
                kernels.sample(Sample { logits, draw })
            }
        }
    }

    /// A product for each part of a weight: several where a file mixes formats.
    pub fn each_part(
        &mut self,
        op: &Linear<Recorded>,
        mut multiply: impl FnMut(crate::Linear<'_>) -> Result<(), OpError>,
    ) -> Result<(), OpError> {
        let weights = self.weights;
        let parts = weights.matrix(op.weight);
        let mut first = 0;
        for (part, weight) in parts.iter().enumerate() {
            self.part = part;
            let bound = op.bind(self);
            let columns = first..first + weight.rows();
            first = columns.end;
            multiply(crate::Linear {
                bias: bound.bias.map(|bias| bias.columns(columns.clone())),
                out: bound.out.columns(columns),
                ..bound
            })?;
        }
        self.part = 0;
        Ok(())
    }
}
