use axum::Json;
use axum::response::{IntoResponse, Response};
use engine::{RecordingError, RequestError};
use http::header::ACCEPT_ENCODING;
use http::{HeaderValue, StatusCode};
use protocol::json::ReadError;
use protocol::native::ErrorBody;
use protocol::openai::ErrorResponse;
use sampling::SamplingError;
use serde::Serialize;
use text::{StopPatternError, TemplateError, TokenizerError};

/// Why the server could not run.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// The address is taken or not ours.
    #[error("cannot listen on {address}")]
    Listen {
        /// Host and port.
        address: String,
        /// What the system says.
        source: std::io::Error,
    },
    /// The system would not let us wait for connections or signals.
    #[error("cannot serve")]
    Serve(#[from] std::io::Error),
    /// The server's own first request failed.
    #[error("the warm-up request failed: {0}")]
    Warmup(String),
    /// The engine ended by itself.
    #[error("the engine is gone")]
    EngineLost,
}

/// Why a request gets no answer.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub(crate) enum ApiError {
    /// The body is not JSON, or has values of the wrong type.
    #[error("{0}")]
    Malformed(#[from] ReadError),
    /// The body asks for what makes no sense or is not offered.
    #[error("{0}")]
    Invalid(String),
    /// The body is no JSON by its own account.
    #[error("Unsupported Media Type: Only 'application/json' is allowed")]
    MediaType,
    /// The body was encoded on its way, and we undo none of that.
    #[error(
        "the request body has the Content-Encoding {encoding:?}, only identity is taken: send it as it is"
    )]
    Encoded {
        /// What it was encoded with.
        encoding: String,
    },
    /// The body is larger than we read.
    #[error("the request body is larger than {limit} bytes")]
    TooLarge {
        /// The most that is read.
        limit: usize,
    },
    /// There is no room for the body beside those of other requests.
    #[error(
        "the bodies of requests in flight have no more than {limit} bytes together (--max-body-bytes-in-flight): try again later"
    )]
    Crowded {
        /// The most that all have.
        limit: usize,
    },
    /// The body takes too long.
    #[error("the request body came too slowly: {received} bytes so far")]
    TooSlow {
        /// What there is of it.
        received: usize,
    },
    /// The body never arrived in full.
    #[error("the request body could not be read: {0}")]
    Interrupted(String),
    /// The text does not fit in the context, however it is encoded.
    #[error(
        "The input (at least {least} tokens) is longer than the model's context length ({limit} tokens)."
    )]
    TextTooLong {
        /// Tokens of the text at least.
        least: usize,
        /// Tokens a sequence may have.
        limit: usize,
    },
    /// The KV memory could never hold the text, however it is encoded.
    #[error(
        "the request needs KV memory for at least {least} tokens, the server has room for {capacity}"
    )]
    TextNeverFits {
        /// Tokens of the text at least.
        least: usize,
        /// Tokens there is memory for.
        capacity: usize,
    },
    /// The engine does not take it.
    #[error(transparent)]
    Refused(#[from] RequestError),
    /// We broke it.
    #[error("{0}")]
    Failed(String),
    /// It was ended while it ran; the status is the one the sequence ended with.
    #[error("{message}")]
    Aborted {
        /// Why.
        message: String,
        /// What kind of end.
        status: u16,
    },
}

impl ApiError {
    /// The request makes no sense.
    pub(crate) fn invalid(message: impl Into<String>) -> Self {
        Self::Invalid(message.into())
    }

    pub(crate) fn status(&self) -> StatusCode {
        match self {
            Self::Malformed(error) if error.is_too_large() => StatusCode::PAYLOAD_TOO_LARGE,
            Self::Refused(
                RequestError::QueueFull
                | RequestError::PriorityDisabled
                | RequestError::ShuttingDown,
            )
            | Self::Crowded { .. } => StatusCode::SERVICE_UNAVAILABLE,
            Self::TooSlow { .. } => StatusCode::REQUEST_TIMEOUT,
            Self::Malformed(_)
            | Self::Invalid(_)
            | Self::MediaType
            | Self::Interrupted(_)
            | Self::TextTooLong { .. }
            | Self::TextNeverFits { .. }
            | Self::Refused(_) => StatusCode::BAD_REQUEST,
            Self::Encoded { .. } => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            Self::TooLarge { .. } => StatusCode::PAYLOAD_TOO_LARGE,
            Self::Failed(_) => StatusCode::INTERNAL_SERVER_ERROR,
            Self::Aborted { status, .. } => {
                StatusCode::from_u16(*status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
            }
        }
    }

    /// The error as the OpenAI API writes it.
    pub(crate) fn openai(&self) -> ErrorResponse {
        let status = self.status();
        let kind = match self {
            Self::Malformed(_) | Self::MediaType if status == StatusCode::BAD_REQUEST => {
                "Bad Request"
            }
            _ if status == StatusCode::SERVICE_UNAVAILABLE => "ServiceUnavailableError",
            _ if status.is_server_error() => "InternalServerError",
            _ => "BadRequestError",
        };
        ErrorResponse::new(self.to_string(), kind, status.as_u16())
    }
}

impl From<SamplingError> for ApiError {
    fn from(error: SamplingError) -> Self {
        Self::Invalid(error.to_string())
    }
}

impl From<StopPatternError> for ApiError {
    fn from(error: StopPatternError) -> Self {
        Self::Invalid(error.to_string())
    }
}

impl From<TokenizerError> for ApiError {
    fn from(error: TokenizerError) -> Self {
        Self::Invalid(format!("the text cannot be encoded: {error}"))
    }
}

impl From<TemplateError> for ApiError {
    fn from(error: TemplateError) -> Self {
        match error {
            TemplateError::NoProcess(_) => Self::Failed(error.to_string()),
            _ => Self::Invalid(error.to_string()),
        }
    }
}

impl From<RecordingError> for ApiError {
    fn from(error: RecordingError) -> Self {
        match error {
            RecordingError::Running | RecordingError::Ending | RecordingError::NotRunning => {
                Self::Invalid(error.to_string())
            }
            RecordingError::EngineGone => Self::Refused(RequestError::ShuttingDown),
        }
    }
}

/// An error in the form of the native API.
#[derive(Debug)]
pub(crate) struct NativeError(ApiError);

impl<E: Into<ApiError>> From<E> for NativeError {
    fn from(error: E) -> Self {
        Self(error.into())
    }
}

impl IntoResponse for NativeError {
    fn into_response(self) -> Response {
        let status = self.0.status();
        match self.0 {
            error @ ApiError::Malformed(_) => answer(status, &error.openai()),
            error => answer(status, &ErrorBody::new(error.to_string())),
        }
    }
}

/// An error in the form of the OpenAI API.
#[derive(Debug)]
pub(crate) struct OpenAiError(ApiError);

impl<E: Into<ApiError>> From<E> for OpenAiError {
    fn from(error: E) -> Self {
        Self(error.into())
    }
}

impl IntoResponse for OpenAiError {
    fn into_response(self) -> Response {
        answer(self.0.status(), &self.0.openai())
    }
}

/// An error as an answer. Who is refused for an encoding is also told in a header which one is taken.
fn answer(status: StatusCode, body: &impl Serialize) -> Response {
    let mut response = (status, Json(body)).into_response();
    if status == StatusCode::UNSUPPORTED_MEDIA_TYPE {
        let taken = HeaderValue::from_static("identity");
        response.headers_mut().insert(ACCEPT_ENCODING, taken);
    }
    response
}
