//! Pieces of JSON Schema.

use serde_json::{Value, json};

/// The schema of values that may be null besides.
pub(crate) fn nullable(mut schema: Value) -> Value {
    let null = json!({"type": "null"});
    if let Some(Value::Array(forms)) = schema.get_mut("anyOf") {
        if !forms.contains(&null) {
            forms.push(null);
        }
        return schema;
    }
    match schema.get("type") {
        Some(Value::String(_)) => {
            schema["type"] = json!([schema["type"], "null"]);
            schema
        }
        // Nullable already, or anything at all.
        _ => schema,
    }
}

/// The schema of a member of a request: null counts as absent.
pub(crate) fn member(schema: Value, about: &str) -> Value {
    required_member(nullable(schema), about)
}

/// The schema of a member that must be there.
pub(crate) fn required_member(mut schema: Value, about: &str) -> Value {
    schema["description"] = json!(about);
    schema
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::{FromJson, OneOrMany};

    #[test]
    fn null_is_added_once_and_where_it_says_something() {
        let table = [
            (bool::schema(), json!({"type": ["boolean", "null"]})),
            (Value::schema(), json!({})),
            (
                OneOrMany::<i64>::schema(),
                json!({"anyOf": [
                    {"type": "integer"},
                    {"type": "array", "items": {"type": "integer"}},
                    {"type": "null"},
                ]}),
            ),
        ];
        for (schema, expected) in table {
            assert_eq!(nullable(schema), expected);
            assert_eq!(nullable(expected.clone()), expected);
        }
    }
}
