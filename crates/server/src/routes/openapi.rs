//! `/openapi.json`: what this server answers, written from the routes themselves.

use serde_json::{Map, Value, json};

use crate::auth::Keys;
use crate::convert::is_refused;
use crate::route::{NATIVE_ERROR, OPENAI_ERROR, Parameter, Route};

/// The description of these routes.
pub(crate) fn document(routes: &[Route], version: &str, keys: &Keys) -> Value {
    let mut paths = Map::new();
    for route in routes {
        let locked = keys.needed(route.access).is_some();
        let operation = operation(route, locked);
        let methods = route
            .methods
            .iter()
            .map(|method| (method.as_str().to_lowercase(), operation.clone()));
        let path = route.path.replace("{*", "{");
        paths.insert(path, Value::Object(methods.collect()));
    }
    let mut document = json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Peregrine",
            "version": version,
            "description": "SGLang's native endpoints and OpenAI's. Members of a request may be absent or null, which is the same \
                            unless they say otherwise; members that are not listed are ignored.",
        },
        "paths": paths,
        "components": {"schemas": {NATIVE_ERROR: native_error(), OPENAI_ERROR: openai_error()}},
    });
    if keys.are_set() {
        document["components"]["securitySchemes"] =
            json!({"key": {"type": "http", "scheme": "bearer"}});
    }
    document
}

/// What is done by a path, which wants a key when it is `locked`.
fn operation(route: &Route, locked: bool) -> Value {
    let mut operation = json!({"summary": route.summary, "responses": responses(route)});
    if locked {
        operation["security"] = json!([{"key": []}]);
        operation["responses"]["401"] = json!({"description": reason(401)});
    }
    if let Some(body) = &route.body {
        let mut schema = body.clone();
        mark(&mut schema);
        operation["requestBody"] = json!({"content": {"application/json": {"schema": schema}}});
    }
    if !route.parameters.is_empty() {
        let parameters = route.parameters.iter().map(parameter);
        operation["parameters"] = Value::Array(parameters.collect());
    }
    operation
}

fn parameter(parameter: &Parameter) -> Value {
    json!({
        "name": parameter.name,
        "in": parameter.place,
        "required": parameter.place == "path",
        "description": parameter.about,
        "schema": {"type": parameter.kind},
    })
}

fn responses(route: &Route) -> Value {
    let forms = route
        .content
        .iter()
        .map(|form| ((*form).to_owned(), json!({})));
    let mut success = json!({"description": "The answer"});
    if !route.content.is_empty() {
        success["content"] = Value::Object(forms.collect());
    }
    let mut responses = Map::from_iter([("200".to_owned(), success)]);
    for status in route.failures.statuses {
        let mut failure = json!({"description": reason(*status)});
        if let Some(form) = route.failures.form {
            let schema = json!({"$ref": format!("#/components/schemas/{form}")});
            failure["content"] = json!({"application/json": {"schema": schema}});
        }
        responses.insert(status.to_string(), failure);
    }
    Value::Object(responses)
}

fn reason(status: u16) -> &'static str {
    let status = http::StatusCode::from_u16(status).ok();
    status
        .and_then(|status| status.canonical_reason())
        .unwrap_or("Failure")
}

/// Says of members that name features we do not have that they are refused.
fn mark(schema: &mut Value) {
    match schema {
        Value::Object(members) => {
            if let Some(Value::Object(properties)) = members.get_mut("properties") {
                for (name, property) in properties {
                    if is_refused(name)
                        && let Some(about) = property.get("description").and_then(Value::as_str)
                    {
                        let about = format!("{about} {NOT_HERE}");
                        property["description"] = json!(about);
                    }
                }
            }
            members.values_mut().for_each(mark);
        }
        Value::Array(elements) => elements.iter_mut().for_each(mark),
        _ => {}
    }
}

/// What is said of them.
const NOT_HERE: &str = "Refused with status 400 where it asks for something: not in this version.";

fn native_error() -> Value {
    json!({
        "description": "What went wrong. Bodies that cannot be read are answered in the other form.",
        "anyOf": [
            {
                "type": "object",
                "properties": {"error": {
                    "type": "object",
                    "properties": {"message": {"type": "string"}},
                    "required": ["message"],
                }},
                "required": ["error"],
            },
            {"$ref": format!("#/components/schemas/{OPENAI_ERROR}")},
        ],
    })
}

fn openai_error() -> Value {
    json!({
        "type": "object",
        "properties": {
            "object": {"const": "error"},
            "message": {"type": "string"},
            "type": {"type": "string"},
            "param": {"type": ["string", "null"]},
            "code": {"type": "integer"},
        },
        "required": ["object", "message", "type", "param", "code"],
    })
}
