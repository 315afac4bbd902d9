//! The two forms of an op: recorded in a program, and bound to memory.

use std::marker::PhantomData;

use tensor::{View, ViewMut};

use crate::program::{Binder, CacheId, InPlace, Operand, Val, VectorId, WeightId};
use crate::{Draw, Heads, KvCache, RaggedBatch, Weight};

/// What the fields of an op are.
pub trait Handles {
    /// A matrix that is read.
    type In;
    /// A matrix that is written whole.
    type Out;
    /// A matrix that is changed in place.
    type InOut;
    /// A matrix of weights.
    type Weight;
    /// A small plain vector or table: norms, biases, angles.
    type Vector;
    /// Keys and values of a layer.
    type Cache;
    /// Which tokens belong to which sequence.
    type Batch;
    /// How rows draw their tokens.
    type Draw;
}

/// Names in a [`Program`](crate::Program).
#[derive(Clone, Copy, Debug)]
pub struct Recorded;

impl Handles for Recorded {
    type In = Operand;
    type Out = Val;
    type InOut = InPlace;
    type Weight = WeightId;
    type Vector = VectorId;
    type Cache = CacheId;
    type Batch = StepBatch;
    type Draw = DrawnTokens;
}

/// Views of memory.
#[derive(Clone, Copy, Debug)]
pub struct Bound<'a>(PhantomData<&'a ()>);

impl<'a> Handles for Bound<'a> {
    type In = View<'a>;
    type Out = ViewMut<'a>;
    type InOut = ViewMut<'a>;
    type Weight = &'a Weight;
    type Vector = View<'a>;
    type Cache = KvCache<'a>;
    type Batch = RaggedBatch<'a>;
    type Draw = Draw<'a>;
}

/// The batch of whichever step runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StepBatch;

/// The value that the drawn tokens become; the step says how rows draw.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DrawnTokens(pub Val);

/// What an op does with something that it names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Reads a value.
    Read(Val),
    /// Writes a value.
    Write(Val),
    /// Changes a value in place, which has another name from then on.
    Update(InPlace),
    /// Reads a matrix of weights.
    Weight(WeightId),
    /// Reads a vector.
    Vector(VectorId),
    /// Reads or writes keys and values.
    Cache(CacheId),
}

/// A field of a recorded op.
pub(crate) trait Field: Copy {
    /// The same field of the bound op.
    type Bound<'a>;

    /// Finds the memory.
    fn bind<'a>(self, binder: &Binder<'a>) -> Self::Bound<'a>;

    /// Reports what is named.
    fn visit(self, _: &mut dyn FnMut(Access)) {}

    /// Names other values.
    fn rename(self, _: &mut dyn FnMut(Val) -> Val) -> Self {
        self
    }
}

impl Field for Operand {
    type Bound<'a> = View<'a>;

    fn bind<'a>(self, binder: &Binder<'a>) -> View<'a> {
        binder.read(self)
    }

    fn visit(self, visit: &mut dyn FnMut(Access)) {
        visit(Access::Read(self.value));
    }

    fn rename(self, to: &mut dyn FnMut(Val) -> Val) -> Self {
        Self {
            value: to(self.value),
            ..self
        }
    }
}

impl Field for Val {
    type Bound<'a> = ViewMut<'a>;

    fn bind<'a>(self, binder: &Binder<'a>) -> ViewMut<'a> {
        binder.write(self)
    }

    fn visit(self, visit: &mut dyn FnMut(Access)) {
        visit(Access::Write(self));
    }

    fn rename(self, to: &mut dyn FnMut(Val) -> Val) -> Self {
        to(self)
    }
}

impl Field for InPlace {
    type Bound<'a> = ViewMut<'a>;

    fn bind<'a>(self, binder: &Binder<'a>) -> ViewMut<'a> {
        binder.update(self)
    }

    fn visit(self, visit: &mut dyn FnMut(Access)) {
        visit(Access::Update(self));
    }

    fn rename(self, to: &mut dyn FnMut(Val) -> Val) -> Self {
        Self {
            from: to(self.from),
            to: to(self.to),
            ..self
        }
    }
}

impl Field for WeightId {
    type Bound<'a> = &'a Weight;

    fn bind<'a>(self, binder: &Binder<'a>) -> &'a Weight {
        binder.weight(self)
    }

    fn visit(self, visit: &mut dyn FnMut(Access)) {
        visit(Access::Weight(self));
    }
}

impl Field for VectorId {
    type Bound<'a> = View<'a>;

    fn bind<'a>(self, binder: &Binder<'a>) -> View<'a> {
        binder.vector(self)
    }

    fn visit(self, visit: &mut dyn FnMut(Access)) {
        visit(Access::Vector(self));
    }
}

impl Field for CacheId {
    type Bound<'a> = KvCache<'a>;

    fn bind<'a>(self, binder: &Binder<'a>) -> KvCache<'a> {
        binder.cache(self)
    }

    fn visit(self, visit: &mut dyn FnMut(Access)) {
        visit(Access::Cache(self));
    }
}

impl Field for StepBatch {
    type Bound<'a> = RaggedBatch<'a>;

    fn bind<'a>(self, binder: &Binder<'a>) -> RaggedBatch<'a> {
        binder.batch()
    }
}

impl Field for DrawnTokens {
    type Bound<'a> = Draw<'a>;

    fn bind<'a>(self, binder: &Binder<'a>) -> Draw<'a> {
        binder.draw(self.0)
    }

    fn visit(self, visit: &mut dyn FnMut(Access)) {
        visit(Access::Write(self.0));
    }

    fn rename(self, to: &mut dyn FnMut(Val) -> Val) -> Self {
        Self(to(self.0))
    }
}

impl<T: Field> Field for Option<T> {
    type Bound<'a> = Option<T::Bound<'a>>;

    fn bind<'a>(self, binder: &Binder<'a>) -> Self::Bound<'a> {
        self.map(|field| field.bind(binder))
    }

    fn visit(self, visit: &mut dyn FnMut(Access)) {
        if let Some(field) = self {
            field.visit(visit);
        }
    }

    fn rename(self, to: &mut dyn FnMut(Val) -> Val) -> Self {
        self.map(|field| field.rename(to))
    }
}

/// Numbers that are the same in both forms.
macro_rules! constants {
    ($($type:ty),*) => {
        $(impl Field for $type {
            type Bound<'a> = $type;

            fn bind(self, _: &Binder<'_>) -> $type {
                self
            }
        })*
    };
}
constants!(f32, usize, Heads, crate::Activation);

/// Lists the fields of an op once: how it is bound and which values it names follow from them.
macro_rules! op_fields {
    ($op:ident { $($field:ident),* $(,)? }) => {
        impl $op<crate::Recorded> {
            /// Finds the memory of all fields.
            pub fn bind<'a>(&self, binder: &crate::program::Binder<'a>) -> $op<crate::Bound<'a>> {
                $op { $($field: crate::handles::Field::bind(self.$field, binder)),* }
            }

            pub(crate) fn visit(&self, visit: &mut dyn FnMut(crate::Access)) {
                $(crate::handles::Field::visit(self.$field, visit);)*
            }

            pub(crate) fn rename(&self, to: &mut dyn FnMut(crate::program::Val) -> crate::program::Val) -> Self {
                Self { $($field: crate::handles::Field::rename(self.$field, to)),* }
            }
        }
    };
}
pub(crate) use op_fields;
