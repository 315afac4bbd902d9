//! Memory of the names in a program, for one step.

use tensor::{DType, Place, View, ViewMut};

use super::{
    Axis, CacheId, InPlace, Input, Layout, Operand, Program, Val, ValueDecl, VectorId, WeightId,
    Weights,
};
use crate::batch::writable;
use crate::{Draw, KvCache, RaggedBatch, Weight};

/// The memory that values of a step lie in.
#[derive(Clone, Copy, Debug)]
pub struct Arena<'a>(View<'a>);

impl<'a> Arena<'a> {
    /// All of a row of bytes.
    pub fn new(bytes: ViewMut<'a>) -> Self {
        assert_eq!(bytes.rows(), 1, "an arena is one row of bytes");
        Self(bytes.into_view())
    }

    /// Its size.
    pub fn bytes(&self) -> usize {
        self.0.cols()
    }

    fn place(&self) -> Place {
        self.0.place()
    }
}

/// What the executor gives to ops of one step, each as its op takes it.
#[derive(Clone, Copy, Default)]
pub struct InputViews<'a>([Option<View<'a>>; Input::COUNT]);

impl<'a> InputViews<'a> {
    /// One more.
    #[must_use]
    pub fn with(mut self, input: Input, view: View<'a>) -> Self {
        self.0[input as usize] = Some(view);
        self
    }

    fn get(&self, input: Input) -> View<'a> {
        self.0[input as usize].expect("a step is given what its program reads")
    }
}

/// What the executor gives to one step.
#[derive(Clone, Copy)]
pub struct Step<'a> {
    /// Where values lie.
    pub arena: Arena<'a>,
    /// Tokens of the step.
    pub tokens: usize,
    /// How many of them another one is sampled after.
    pub sampled: usize,
    /// What its ops read.
    pub inputs: InputViews<'a>,
    /// Which tokens belong to whom.
    pub batch: Option<RaggedBatch<'a>>,
    /// Keys and values, one cache a layer.
    pub caches: &'a [KvCache<'a>],
    /// How rows draw where tokens are left: parameters, positions, and rows of the tables.
    pub drawing: Option<[View<'a>; 3]>,
}

impl Step<'_> {
    fn rows(&self, axis: Axis) -> usize {
        match axis {
            Axis::Tokens => self.tokens,
            Axis::Sampled => self.sampled,
            Axis::TableRows => unreachable!("no value has a row for each of the tables"),
        }
    }
}

/// Finds the memory of what ops name.
pub struct Binder<'a> {
    pub(super) program: &'a Program,
    pub(super) layout: &'a Layout,
    pub(super) weights: &'a Weights,
    pub(super) step: &'a Step<'a>,
    pub(super) activation: DType,
    /// Which part of weights whose formats differ.
    pub(super) part: usize,
}

impl<'a> Binder<'a> {
    /// A value, or some columns of it, to read.
    pub fn read(&self, operand: Operand) -> View<'a> {
        let decl = self.program.value(operand.value);
        let view = match decl.input {
            Some(input) => self.step.inputs.get(input),
            None => self.memory(operand.value, decl).into_view(),
        };
        match operand {
            Operand {
                first: 0,
                cols: None,
                ..
            } => view,
            Operand { first, cols, .. } => {
                let end = cols.map_or(view.cols(), |cols| first + cols);
                view.columns(first..end)
            }
        }
    }

    /// Memory besides values: see [`super::Extra`].
    pub fn extra(&self, index: usize, shape: (usize, usize), dtype: DType) -> ViewMut<'a> {
        matrix(self.step.arena, self.layout.extra(index), shape, dtype)
    }

    pub(crate) fn write(&self, value: Val) -> ViewMut<'a> {
        self.memory(value, self.program.value(value))
    }

    pub(crate) fn update(&self, update: InPlace) -> ViewMut<'a> {
        let whole = self.memory(update.to, self.program.value(update.to));
        let end = update.cols.map_or(whole.cols(), |cols| update.first + cols);
        whole.columns(update.first..end)
    }

    pub(crate) fn weight(&self, id: WeightId) -> &'a Weight {
        &self.weights.matrix(id)[self.part]
    }

    pub(crate) fn vector(&self, id: VectorId) -> View<'a> {
        let decl = &self.program.vectors[id.index()];
        let (buffer, dtype) = self.weights.vector(id);
        buffer.view(0, decl.rows, decl.cols, dtype)
    }

    pub(crate) fn cache(&self, id: CacheId) -> KvCache<'a> {
        self.step.caches[self.program.caches[id.index()].layer]
    }

    pub(crate) fn batch(&self) -> RaggedBatch<'a> {
        self.step.batch.expect("a step that attends has a batch")
    }

    #[expect(unsafe_code, reason = "a table is read and written in one step")]
    pub(crate) fn draw(&self, tokens: Val) -> Draw<'a> {
        let drawing = self.step.drawing.expect("a step that draws says how");
        let [params, positions, table_rows] = drawing;
        let last = self.step.inputs.get(Input::LastTokens);
        // SAFETY: the executor owns the table of last tokens and lends it to the step; ops run one after the other.
        let last = unsafe { writable(last) };
        Draw {
            params,
            positions,
            table_rows,
            out: self.write(tokens),
            last,
        }
    }

    fn memory(&self, value: Val, decl: &ValueDecl) -> ViewMut<'a> {
        let rows = self.step.rows(decl.shape.axis);
        let (rows, cols) = match decl.shape.cols {
            Some(cols) => (rows, cols),
            None => (1, rows),
        };
        let offset = self
            .layout
            .offset(value)
            .expect("the list touches the value");
        matrix(
            self.step.arena,
            offset,
            (rows, cols),
            decl.elements.dtype(self.activation),
        )
    }
}

/// A matrix of an arena.
#[expect(
    unsafe_code,
    reason = "values of a step are views of one arena; `Program::verify` and `Layout` keep them apart"
)]
pub(super) fn matrix(
    arena: Arena<'_>,
    offset: usize,
    (rows, cols): (usize, usize),
    dtype: DType,
) -> ViewMut<'_> {
    let end = offset + rows * cols * dtype.size();
    assert!(
        end <= arena.bytes(),
        "the step needs {end} bytes, its arena has {}",
        arena.bytes()
    );
    let address = arena.0.address().cast_mut().wrapping_add(offset);
    // SAFETY: inside the arena, which was given away as a ViewMut. No op reads what it writes, and no two values that are
    // alive share memory.
    unsafe { ViewMut::from_raw(address, rows, cols, cols, dtype, arena.place()) }
}
