//! Answers where no route leads.

use axum::Json;
use axum::response::{IntoResponse, Response};
use http::header::LOCATION;
use http::{Method, StatusCode, Uri};
use serde_json::json;

/// Bytes of a path that are looked at and repeated.
const LONGEST: usize = 128;

/// From which likeness on a path may be meant.
const ALIKE: f64 = 0.6;

const GENERATES: &str = "this server generates text and makes no embeddings, scores or ranks";
const CHATS: &str = "chats are at /v1/chat/completions";
const CONTINUES: &str = "texts are continued at /generate and /v1/completions";
const AS_STARTED: &str = "a server keeps the weights that it was started with; start another";

/// Paths of other servers, and what there is instead.
const FOREIGN: [(&str, &str); 20] = [
    ("/api/chat", CHATS),
    ("/api/generate", CONTINUES),
    ("/api/tags", "the model is at /v1/models"),
    ("/apply-template", "/tokenize takes messages"),
    ("/classify", GENERATES),
    ("/completion", CONTINUES),
    ("/embeddings", GENERATES),
    ("/encode", GENERATES),
    ("/infill", CONTINUES),
    ("/load_lora_adapter", AS_STARTED),
    ("/props", "settings and limits are at /server_info"),
    ("/rerank", GENERATES),
    ("/score", GENERATES),
    ("/slots", "requests and tokens are counted at /v1/loads"),
    ("/update_weights_from_disk", AS_STARTED),
    ("/v1/embeddings", GENERATES),
    ("/v1/messages", CHATS),
    ("/v1/rerank", GENERATES),
    ("/v1/responses", CHATS),
    ("/v1/score", GENERATES),
];

/// What is answered, by path.
pub(crate) struct Paths(pub(crate) Vec<(&'static str, Vec<Method>)>);

impl Paths {
    /// Sends those who wrote a slash too many to the path without it, method and body kept, as FastAPI does; tells the
    /// others what there is.
    pub(crate) fn elsewhere(&self, uri: &Uri) -> Response {
        let path = uri.path().trim_end_matches('/');
        if !self.0.iter().any(|(known, _)| *known == path) {
            return failure(StatusCode::NOT_FOUND, "Not Found", &self.about(uri.path()));
        }
        let query = uri.query().map(|query| format!("?{query}"));
        let location = format!("{path}{}", query.unwrap_or_default());
        (StatusCode::TEMPORARY_REDIRECT, [(LOCATION, location)]).into_response()
    }

    /// What is said to a method that a path does not take.
    pub(crate) fn other_method(&self, method: &Method, uri: &Uri) -> Response {
        let known = self.0.iter().find(|(path, _)| *path == uri.path());
        let taken = known.map_or(String::new(), |(_, methods)| {
            let methods: Vec<&str> = methods.iter().map(Method::as_str).collect();
            format!("; it takes {}", methods.join(" and "))
        });
        let message = format!(
            "{} does not take {}{taken}.",
            shown(uri.path()),
            shown(method.as_str())
        );
        failure(
            StatusCode::METHOD_NOT_ALLOWED,
            "Method Not Allowed",
            &message,
        )
    }

    /// What there is instead of this path, or near it.
    fn about(&self, path: &str) -> String {
        let path = shown(path);
        if let Some((_, instead)) = FOREIGN.iter().find(|(foreign, _)| *foreign == path) {
            return format!("{path} is not served: {instead}.");
        }
        let mut near: Vec<(f64, &str)> = self
            .0
            .iter()
            .map(|(known, _)| (strsim::normalized_damerau_levenshtein(path, known), *known))
            .filter(|(likeness, _)| *likeness >= ALIKE)
            .collect();
        near.sort_by(|(a, _), (b, _)| b.total_cmp(a));
        let near: Vec<&str> = near.into_iter().take(3).map(|(_, known)| known).collect();
        let near = match near[..] {
            [] => String::from(
                "; among others there are /generate, /v1/completions and /v1/chat/completions",
            ),
            _ => format!("; did you mean {}?", near.join(" or ")),
        };
        format!("{path} is not served{near}")
    }
}

fn shown(text: &str) -> &str {
    &text[..text.floor_char_boundary(LONGEST)]
}

/// The form of FastAPI, and a sentence.
fn failure(status: StatusCode, detail: &str, message: &str) -> Response {
    (status, Json(json!({"detail": detail, "message": message}))).into_response()
}
