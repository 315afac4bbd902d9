//! Descriptions are input: dimensions that make no sense are refused before anything is computed from them.

use crate::rope::{RopeScaling, RopeSpec};
use crate::{ModelSpec, SpecError};

/// A size's name, where it is, and its limit.
type Limit = (&'static str, fn(&ModelSpec) -> usize, usize);

/// Layers of a model.
const MOST_LAYERS: usize = 1 << 12;

/// Above every real model, and small enough that no product of them overflows.
const LIMITS: [Limit; 7] = [
    ("hidden size", |spec| spec.hidden, 1 << 18),
    ("feed-forward size", |spec| spec.feed_forward, 1 << 20),
    ("query heads", |spec| spec.heads.query, 1 << 12),
    ("key heads", |spec| spec.heads.kv, 1 << 12),
    ("head size", |spec| spec.heads.dim, 1 << 12),
    ("vocabulary size", |spec| spec.vocabulary, 1 << 24),
    ("context length", |spec| spec.context_length, 1 << 28),
];

/// Gives the number of layers back when so many can be described.
pub(super) fn layer_count(found: usize) -> Result<usize, SpecError> {
    match found {
        1..=MOST_LAYERS => Ok(found),
        _ => Err(SpecError::Size {
            what: "layer count",
            found,
            limit: MOST_LAYERS,
        }),
    }
}

/// Gives the spec back when it can be served.
pub(super) fn checked(spec: ModelSpec) -> Result<ModelSpec, SpecError> {
    for (what, size, limit) in LIMITS {
        let found = size(&spec);
        if found == 0 || found > limit {
            return Err(SpecError::Size { what, found, limit });
        }
    }
    let dimension = |what, found, reason| {
        Err(SpecError::Dimension {
            what,
            found,
            reason,
        })
    };
    if spec.context_length < 2 {
        let reason = "must have room for a token of the prompt and one of the answer";
        return dimension("context length", spec.context_length, reason);
    }
    if !spec.heads.query.is_multiple_of(spec.heads.kv) {
        let reason = "must be a multiple of the key heads";
        return dimension("query heads", spec.heads.query, reason);
    }
    for rope in &spec.ropes {
        if !rope.dim.is_multiple_of(2) || !(1..=spec.heads.dim).contains(&rope.dim) {
            let reason = "must be even and at most the head size";
            return dimension("rotated elements", rope.dim, reason);
        }
        if let RopeScaling::Factors(factors) = &rope.scaling
            && factors.len() != rope.dim / 2
        {
            let reason = "must be half of the rotated elements";
            return dimension("rope factors", factors.len(), reason);
        }
        check_rope(rope)?;
    }
    if spec.layers.iter().any(|layer| layer.window == Some(0)) {
        return dimension("sliding window", 0, "must hold the token itself");
    }
    let scale = f64::from(spec.attention_scale);
    if !is_positive(scale) {
        return number("attention scale", scale);
    }
    let eps = f64::from(spec.norm_eps);
    if !(0.0..1.0).contains(&eps) {
        return number("norm epsilon", eps);
    }
    Ok(spec)
}

fn number<T>(what: &'static str, found: f64) -> Result<T, SpecError> {
    Err(SpecError::Number { what, found })
}

/// Real numbers that would turn everything into infinities.
fn check_rope(rope: &RopeSpec) -> Result<(), SpecError> {
    let RopeSpec { base, scaling, .. } = rope;
    if !is_positive(*base) {
        return number("rope base", *base);
    }
    match scaling {
        RopeScaling::None => Ok(()),
        RopeScaling::Linear { factor } if is_positive(*factor) => Ok(()),
        RopeScaling::Linear { factor } => number("rope scaling factor", *factor),
        RopeScaling::Llama3 {
            factor,
            low,
            high,
            original,
        } => {
            for (what, found) in [
                ("rope scaling factor", factor),
                ("low_freq_factor", low),
                ("high_freq_factor", high),
                ("original_max_position_embeddings", original),
            ] {
                if !is_positive(*found) {
                    return number(what, *found);
                }
            }
            if high > low {
                Ok(())
            } else {
                number("high_freq_factor", *high)
            }
        }
        RopeScaling::Factors(factors) => {
            match factors
                .iter()
                .find(|factor| !is_positive(f64::from(**factor)))
            {
                None => Ok(()),
                Some(factor) => number("rope factor", f64::from(*factor)),
            }
        }
    }
}

fn is_positive(number: f64) -> bool {
    number > 0.0 && number.is_finite()
}
