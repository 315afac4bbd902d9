use axum::body::Bytes;
use axum::extract::{FromRequest, FromRequestParts, Query, Request};
use http::HeaderMap;
use http::header::{CONTENT_ENCODING, CONTENT_TYPE};
use http::request::Parts;
use protocol::json::{FromJson, Unknown, read_noting};
use serde::de::DeserializeOwned;

use crate::convert::Caller;
use crate::error::{ApiError, NativeError, OpenAiError};
use crate::state::Shared;

/// What is known of a request besides what its body says.
#[derive(Debug)]
pub(crate) struct Facts {
    /// Bytes of the body.
    pub(crate) bytes: usize,
    /// Members that nothing reads.
    pub(crate) unknown: Unknown,
    /// Who finds its prefixes.
    pub(crate) caller: Caller,
}

/// The body of a native request. An empty one counts as an empty object.
pub(crate) struct NativeJson<T>(pub(crate) T, pub(crate) Facts);

impl<T: FromJson + Send + 'static> FromRequest<Shared> for NativeJson<T> {
    type Rejection = NativeError;

    async fn from_request(request: Request, state: &Shared) -> Result<Self, NativeError> {
        let caller = state.caller(request.headers());
        let mut body = body(request, state).await?;
        if body.trim_ascii().is_empty() {
            body = Bytes::from_static(b"{}");
        }
        let (value, facts) = parse(body, caller, state).await?;
        Ok(Self(value, facts))
    }
}

/// The body of a request that changes the server, which must call itself JSON: pages may send anything else to any server
/// without asking it first. An empty one counts as an empty object.
pub(crate) struct AdminJson<T>(pub(crate) T);

impl<T: FromJson + Send + 'static> FromRequest<Shared> for AdminJson<T> {
    type Rejection = NativeError;

    async fn from_request(request: Request, state: &Shared) -> Result<Self, NativeError> {
        let has_kind = request.headers().contains_key(CONTENT_TYPE);
        let is_json = is_json(&request);
        let mut body = body(request, state).await?;
        if !is_json && (has_kind || !body.is_empty()) {
            return Err(ApiError::MediaType.into());
        }
        if body.trim_ascii().is_empty() {
            body = Bytes::from_static(b"{}");
        }
        let (value, _) = parse(body, Caller::Anyone, state).await?;
        Ok(Self(value))
    }
}

/// The body of a request of the OpenAI API, which must call itself JSON.
pub(crate) struct OpenAiJson<T>(pub(crate) T, pub(crate) Facts);

impl<T: FromJson + Send + 'static> FromRequest<Shared> for OpenAiJson<T> {
    type Rejection = OpenAiError;

    async fn from_request(request: Request, state: &Shared) -> Result<Self, OpenAiError> {
        if !is_json(&request) {
            return Err(ApiError::MediaType.into());
        }
        let caller = state.caller(request.headers());
        let body = body(request, state).await?;
        let (value, facts) = parse(body, caller, state).await?;
        Ok(Self(value, facts))
    }
}

/// The query of a native request.
pub(crate) struct NativeQuery<T>(pub(crate) T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequestParts<S> for NativeQuery<T> {
    type Rejection = NativeError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, NativeError> {
        let query = Query::from_request_parts(parts, state).await;
        let Query(query) = query.map_err(|rejection| {
            let text = rejection.body_text();
            let (_, why) = text.split_once(": ").unwrap_or(("", &text));
            ApiError::Invalid(format!("the query cannot be read: {why}"))
        })?;
        Ok(Self(query))
    }
}

fn is_json(request: &Request) -> bool {
    let value = request
        .headers()
        .get(CONTENT_TYPE)
        .and_then(|value| value.to_str().ok());
    let kind = value
        .unwrap_or_default()
        .split(';')
        .next()
        .unwrap_or_default();
    kind.trim().eq_ignore_ascii_case("application/json")
}

/// What a body was encoded with on its way, if with anything.
fn encoding(headers: &HeaderMap) -> Option<String> {
    let values = headers.get_all(CONTENT_ENCODING).into_iter();
    let codings: Vec<_> = values
        .flat_map(|value| value.as_bytes().split(|&byte| byte == b','))
        .map(<[u8]>::trim_ascii)
        .filter(|coding| !coding.is_empty() && !coding.eq_ignore_ascii_case(b"identity"))
        .map(String::from_utf8_lossy)
        .collect();
    (!codings.is_empty()).then(|| codings.join(", "))
}

async fn body(request: Request, state: &Shared) -> Result<Bytes, ApiError> {
    if let Some(encoding) = encoding(request.headers()) {
        return Err(ApiError::Encoded { encoding });
    }
    crate::body::read(request, &state.config.limits).await
}

async fn parse<T: FromJson + Send + 'static>(
    body: Bytes,
    caller: Caller,
    state: &Shared,
) -> Result<(T, Facts), ApiError> {
    let bytes = body.len();
    let parsed = state.work.on(bytes, move |_| Ok(read_noting(&body)?));
    let (value, unknown) = parsed.await?;
    state.unknown.note(&unknown);
    let facts = Facts {
        bytes,
        unknown,
        caller,
    };
    Ok((value, facts))
}
