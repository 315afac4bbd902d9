//! What a step computes, written down once: a flat list of ops over values, weights and caches.
//!
//! A model records its program before its weights are loaded. Row counts stay symbolic. [`Program::for_class`] leaves
//! what steps of one class need; [`crate::Device::lower`] decides how a device runs that; [`Lowered`] is run step by step.

mod bind;
mod class;
mod interpret;
mod layout;
mod narrow;
mod node;
mod prune;
mod record;
#[cfg(test)]
mod tests;
mod verify;
mod weights;

pub use bind::{Arena, Binder, InputViews, Step};
pub use class::{Leaves, Sampled, StepClass};
pub use interpret::Lowered;
pub use layout::{Extra, Layout, Spans};
pub use node::{Node, Op};
pub use record::{Attention, Projected, Recorder};
pub use verify::Flaw;
pub use weights::{Change, VectorDecl, VectorSource, WeightDecl, WeightPart, Weights};

use tensor::DType;

/// A value of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Val(pub(crate) u32);

/// A matrix of weights.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WeightId(pub(crate) u32);

/// A vector or a small table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct VectorId(pub(crate) u32);

/// Keys and values of a layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CacheId(pub(crate) u32);

macro_rules! indices {
    ($($id:ty),*) => {
        $(impl $id {
            /// Its place in its list.
            pub fn index(self) -> usize {
                self.0 as usize
            }
        })*
    };
}
indices!(Val, WeightId, VectorId, CacheId);

/// What a value has a row for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Axis {
    /// Every token of the step.
    Tokens,
    /// Every token that another one is sampled after.
    Sampled,
    /// Every row of the executor's tables.
    TableRows,
}

/// The shape of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// What it has a row for; a list has a column for each instead.
    pub axis: Axis,
    /// Columns, or none where the value is a list: one row.
    pub cols: Option<usize>,
}

/// The type of a value's elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Elements {
    /// Whatever the device computes in.
    Activation,
    /// This type on every device.
    Fixed(DType),
}

impl Elements {
    /// The type, on a device with such activations.
    pub fn dtype(self, activation: DType) -> DType {
        match self {
            Self::Activation => activation,
            Self::Fixed(dtype) => dtype,
        }
    }
}

/// What the executor gives to a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Input {
    /// Tokens as the host knows them: see [`crate::ResolveTokens`].
    StagedTokens,
    /// The last token of every row of the tables.
    LastTokens,
    /// Positions of the tokens.
    Positions,
    /// Where keys and values of the tokens go.
    Slots,
    /// Which tokens another one is sampled after.
    SampledPlaces,
    /// Hidden rows that another step left, where the head runs alone.
    HiddenRows,
}

impl Input {
    /// How many there are.
    pub(crate) const COUNT: usize = Self::HiddenRows as usize + 1;
}

/// A value: written once and whole, by one op or by the executor.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ValueDecl {
    /// Its shape.
    pub shape: Shape,
    /// Type of its elements.
    pub elements: Elements,
    /// Set where the executor gives it.
    pub input: Option<Input>,
}

/// Some columns of a value, to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Operand {
    /// The value.
    pub value: Val,
    /// The first column.
    pub first: usize,
    /// How many; all from the first on when absent.
    pub cols: Option<usize>,
}

impl From<Val> for Operand {
    fn from(value: Val) -> Self {
        Self {
            value,
            first: 0,
            cols: None,
        }
    }
}

impl Operand {
    /// Some columns.
    pub fn columns(value: Val, columns: std::ops::Range<usize>) -> Self {
        Self {
            value,
            first: columns.start,
            cols: Some(columns.len()),
        }
    }
}

/// Some columns of a value that change: from then on the value has another name, in the same memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InPlace {
    /// The value before.
    pub from: Val,
    /// The value after.
    pub to: Val,
    /// The first column.
    pub first: usize,
    /// How many; all from the first on when absent.
    pub cols: Option<usize>,
}

/// Keys and values of one layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheDecl {
    /// The layer.
    pub layer: usize,
    /// Elements of a position's keys, and of its values.
    pub width: usize,
    /// Positions that are seen, the newest included; all when absent.
    pub window: Option<usize>,
}

/// What a step leaves for the executor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Output {
    /// What the head reads.
    Hidden,
    /// A score for every token of the vocabulary.
    Logits,
    /// The token with the largest score.
    Tokens,
}

/// A model's step.
#[derive(Clone, Debug, Default)]
pub struct Program {
    /// Values.
    pub values: Vec<ValueDecl>,
    /// Matrices, in the order in which they are loaded.
    pub weights: Vec<WeightDecl>,
    /// Vectors and tables, in the order in which they are loaded.
    pub vectors: Vec<VectorDecl>,
    /// Keys and values.
    pub caches: Vec<CacheDecl>,
    /// Ops in their order.
    pub nodes: Vec<Node>,
    /// What is left at the end.
    pub outputs: Vec<(Output, Val)>,
}

impl Program {
    /// The declaration of a value.
    pub fn value(&self, value: Val) -> &ValueDecl {
        &self.values[value.index()]
    }

    /// The value that an output is, if the program leaves it.
    pub fn output(&self, output: Output) -> Option<Val> {
        let found = self.outputs.iter().find(|(name, _)| *name == output);
        found.map(|&(_, value)| value)
    }

    /// All matrices, in the order in which they are loaded.
    pub fn weight_ids(&self) -> impl Iterator<Item = (WeightId, &WeightDecl)> {
        let decls = self.weights.iter().enumerate();
        decls.map(|(place, decl)| (WeightId(place as u32), decl))
    }

    /// True when products with this weight add a bias.
    pub fn adds_bias(&self, weight: WeightId) -> bool {
        self.linears(weight).any(|linear| linear.bias.is_some())
    }

    /// True when something is multiplied with this weight; else it is only looked up in.
    pub fn multiplies(&self, weight: WeightId) -> bool {
        self.linears(weight).next().is_some()
    }

    fn linears(
        &self,
        weight: WeightId,
    ) -> impl Iterator<Item = &crate::op::Linear<crate::Recorded>> {
        self.nodes.iter().filter_map(move |node| match &node.op {
            Op::Linear(linear) if linear.weight == weight => Some(linear),
            _ => None,
        })
    }

    /// Of every value, the places of ops that read or change it.
    pub fn users(&self) -> Vec<Vec<usize>> {
        let mut users = vec![Vec::new(); self.values.len()];
        for (place, node) in self.nodes.iter().enumerate() {
            for value in node.op.inputs() {
                users[value.index()].push(place);
            }
        }
        users
    }
}
