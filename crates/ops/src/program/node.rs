use super::{InPlace, Val};
use crate::op::{
    AddRmsNorm, Attend, Embed, GatedActivation, GatherRows, Linear, ResolveTokens, RmsNorm,
    RopeStoreKv, Sample,
};
use crate::{Access, Recorded};

/// An op of a program.
#[derive(Clone, Copy, Debug)]
pub struct Node {
    /// What is computed.
    pub op: Op,
    /// The layer it belongs to; for people and sums alone.
    pub layer: Option<u16>,
}

macro_rules! ops {
    ($($op:ident => $name:literal),* $(,)?) => {
        /// Every op that programs have.
        #[derive(Clone, Copy, Debug)]
        pub enum Op {
            $(
                #[doc = concat!("See [`crate::op::", stringify!($op), "`].")]
                $op($op<Recorded>),
            )*
        }

        impl Op {
            /// What it is called in listings.
            pub fn name(&self) -> &'static str {
                match self {
                    $(Self::$op(_) => $name,)*
                }
            }

            /// Reports everything that it names.
            pub fn visit(&self, visit: &mut dyn FnMut(Access)) {
                match self {
                    $(Self::$op(op) => op.visit(visit),)*
                }
            }

            /// The same op on other values.
            #[must_use]
            pub(crate) fn rename(&self, to: &mut dyn FnMut(Val) -> Val) -> Self {
                match self {
                    $(Self::$op(op) => Self::$op(op.rename(to)),)*
                }
            }
        }
    };
}
ops! {
    ResolveTokens => "resolve_tokens",
    Embed => "embed",
    RmsNorm => "rms_norm",
    AddRmsNorm => "add_rms_norm",
    Linear => "linear",
    RopeStoreKv => "rope_store_kv",
    Attend => "attend",
    GatedActivation => "gated_activation",
    GatherRows => "gather_rows",
    // every row takes the largest logit
    Sample => "argmax",
}

impl Op {
    /// True when a row of its results depends on that row of its inputs alone, and on nothing else of the step.
    pub fn is_row_wise(&self) -> bool {
        match self {
            Self::RmsNorm(_) | Self::AddRmsNorm(_) | Self::Linear(_) | Self::GatedActivation(_) => {
                true
            }
            Self::ResolveTokens(_)
            | Self::Embed(_)
            | Self::RopeStoreKv(_)
            | Self::Attend(_)
            | Self::GatherRows(_)
            | Self::Sample(_) => false,
        }
    }

    /// True when it changes something besides values.
    pub fn has_effect(&self) -> bool {
        matches!(self, Self::RopeStoreKv(_) | Self::Sample(_))
    }

    /// Values that it writes or leaves changed.
    pub fn results(&self) -> Vec<Val> {
        let mut results = Vec::new();
        self.visit(&mut |access| match access {
            Access::Write(value) | Access::Update(InPlace { to: value, .. })
                if !results.contains(&value) =>
            {
                results.push(value);
            }
            _ => {}
        });
        results
    }

    /// Values that it reads or changes.
    pub fn inputs(&self) -> Vec<Val> {
        let mut inputs = Vec::new();
        self.visit(&mut |access| match access {
            Access::Read(value) | Access::Update(InPlace { from: value, .. })
                if !inputs.contains(&value) =>
            {
                inputs.push(value);
            }
            _ => {}
        });
        inputs
    }

    /// True when it reads or changes this value.
    pub fn reads(&self, value: Val) -> bool {
        self.inputs().contains(&value)
    }
}
