use serde_json::{Map, Value, json};

use super::parse::MAX_VALUES;
use super::{FromJson, Json, Path, ReadError, Unknown, lax, schema};

impl FromJson for bool {
    fn one() -> String {
        "a boolean".to_owned()
    }

    fn many() -> String {
        "booleans".to_owned()
    }

    fn fits(json: &Json) -> bool {
        matches!(json, Json::Bool(_))
    }

    fn relaxed(json: Json) -> Json {
        lax::boolean(json)
    }

    fn from_json(json: Json, path: &Path<'_>) -> Result<Self, ReadError> {
        match json {
            Json::Bool(value) => Ok(value),
            other => Err(ReadError::mismatch(Self::one(), &other, path)),
        }
    }

    fn schema() -> Value {
        json!({"type": "boolean"})
    }
}

/// Whole numbers may be written with a fraction of zero, as some clients do.
fn whole(value: f64) -> Option<i64> {
    (value.fract() == 0.0 && value.abs() < 9.0e15).then_some(value as i64)
}

impl FromJson for i64 {
    fn one() -> String {
        "an integer".to_owned()
    }

    fn many() -> String {
        "integers".to_owned()
    }

    fn fits(json: &Json) -> bool {
        matches!(json, Json::Int(_) | Json::Large(_) | Json::Float(_))
    }

    fn relaxed(json: Json) -> Json {
        lax::integer(json)
    }

    fn from_json(json: Json, path: &Path<'_>) -> Result<Self, ReadError> {
        match json {
            Json::Int(value) => Ok(value),
            Json::Large(_) => Ok(i64::MAX),
            Json::Float(value) => whole(value).ok_or_else(|| ReadError::Type {
                path: path.to_string(),
                expected: Self::one(),
                found: if value.fract() == 0.0 {
                    "a number beyond 64 bits"
                } else {
                    "a fraction"
                },
            }),
            other => Err(ReadError::mismatch(Self::one(), &other, path)),
        }
    }

    fn schema() -> Value {
        json!({"type": "integer"})
    }
}

/// An integer of which only the bits matter: negative ones wrap.
impl FromJson for u64 {
    fn one() -> String {
        i64::one()
    }

    fn many() -> String {
        i64::many()
    }

    fn fits(json: &Json) -> bool {
        i64::fits(json)
    }

    fn relaxed(json: Json) -> Json {
        i64::relaxed(json)
    }

    fn from_json(json: Json, path: &Path<'_>) -> Result<Self, ReadError> {
        match json {
            Json::Large(value) => Ok(value),
            other => Ok(i64::from_json(other, path)? as u64),
        }
    }

    fn schema() -> Value {
        i64::schema()
    }
}

impl FromJson for f64 {
    fn one() -> String {
        "a number".to_owned()
    }

    fn many() -> String {
        "numbers".to_owned()
    }

    fn fits(json: &Json) -> bool {
        matches!(json, Json::Int(_) | Json::Large(_) | Json::Float(_))
    }

    fn relaxed(json: Json) -> Json {
        lax::number(json)
    }

    fn from_json(json: Json, path: &Path<'_>) -> Result<Self, ReadError> {
        match json {
            Json::Int(value) => Ok(value as f64),
            Json::Large(value) => Ok(value as f64),
            Json::Float(value) => Ok(value),
            other => Err(ReadError::mismatch(Self::one(), &other, path)),
        }
    }

    fn schema() -> Value {
        json!({"type": "number"})
    }
}

impl FromJson for String {
    fn one() -> String {
        "a string".to_owned()
    }

    fn many() -> String {
        "strings".to_owned()
    }

    fn fits(json: &Json) -> bool {
        matches!(json, Json::String(_))
    }

    fn from_json(json: Json, path: &Path<'_>) -> Result<Self, ReadError> {
        match json {
            Json::String(value) => Ok(value),
            other => Err(ReadError::mismatch(Self::one(), &other, path)),
        }
    }

    fn schema() -> Value {
        json!({"type": "string"})
    }
}

impl<T: FromJson> FromJson for Vec<T> {
    fn one() -> String {
        format!("a list of {}", T::many())
    }

    fn many() -> String {
        format!("lists of {}", T::many())
    }

    /// An empty list fits; any other is told by its first element.
    fn fits(json: &Json) -> bool {
        match json {
            Json::Ints(values) => values
                .first()
                .is_none_or(|&value| T::fits(&Json::Int(value))),
            Json::List(values) => values.first().is_none_or(T::fits),
            _ => false,
        }
    }

    /// Integers stay compact where they are elements, and in any case where they are many.
    fn relaxed(json: Json) -> Json {
        let stands = |&value: &i64| !matches!(T::relaxed(Json::Int(value)), Json::Int(_));
        let elements = match json {
            Json::Ints(values)
                if values.len() <= MAX_VALUES && values.first().is_some_and(stands) =>
            {
                values.into_iter().map(Json::Int).collect()
            }
            Json::List(values) => values,
            other => return other,
        };
        Json::List(elements.into_iter().map(T::relaxed).collect())
    }

    fn from_json(json: Json, path: &Path<'_>) -> Result<Self, ReadError> {
        let read = |(index, value)| T::from_json(value, &Path::Index(path, index));
        match json {
            Json::Ints(values) => values
                .into_iter()
                .map(Json::Int)
                .enumerate()
                .map(read)
                .collect(),
            Json::List(values) => values.into_iter().enumerate().map(read).collect(),
            other => Err(ReadError::mismatch(Self::one(), &other, path)),
        }
    }

    fn note_unknown(json: &Json, within: &str, unknown: &mut Unknown) {
        if let Json::List(values) = json {
            for value in values {
                T::note_unknown(value, within, unknown);
            }
        }
    }

    fn schema() -> Value {
        json!({"type": "array", "items": T::schema()})
    }
}

/// Null elements of a list.
impl<T: FromJson> FromJson for Option<T> {
    fn one() -> String {
        T::one()
    }

    fn many() -> String {
        T::many()
    }

    fn fits(json: &Json) -> bool {
        matches!(json, Json::Null) || T::fits(json)
    }

    fn relaxed(json: Json) -> Json {
        T::relaxed(json)
    }

    fn from_json(json: Json, path: &Path<'_>) -> Result<Self, ReadError> {
        match json {
            Json::Null => Ok(None),
            other => T::from_json(other, path).map(Some),
        }
    }

    fn schema() -> Value {
        schema::nullable(T::schema())
    }
}

/// Integers in a member that may be anything; only prompts need more.
const MAX_INTEGERS: usize = 1 << 14;

/// Anything.
impl FromJson for Value {
    fn one() -> String {
        "a value".to_owned()
    }

    fn many() -> String {
        "values".to_owned()
    }

    fn fits(_: &Json) -> bool {
        true
    }

    fn from_json(json: Json, path: &Path<'_>) -> Result<Self, ReadError> {
        let count = json.compact_integers();
        if count > MAX_INTEGERS {
            return Err(ReadError::TooManyIntegers {
                path: path.to_string(),
                count,
                limit: MAX_INTEGERS,
            });
        }
        Ok(json.into())
    }

    fn schema() -> Value {
        json!({})
    }
}

/// Any object.
impl FromJson for Map<String, Value> {
    fn one() -> String {
        "an object".to_owned()
    }

    fn many() -> String {
        "objects".to_owned()
    }

    fn fits(json: &Json) -> bool {
        matches!(json, Json::Object(_))
    }

    fn from_json(json: Json, path: &Path<'_>) -> Result<Self, ReadError> {
        match json {
            Json::Object(members) => Ok(members
                .into_iter()
                .map(|(key, value)| (key, value.into()))
                .collect()),
            other => Err(ReadError::mismatch(Self::one(), &other, path)),
        }
    }

    fn schema() -> Value {
        json!({"type": "object"})
    }
}
