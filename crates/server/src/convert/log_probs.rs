use std::sync::Arc;

use sampling::{LogProbRequest, Token};

use crate::error::ApiError;

/// What a request wants to know about probabilities.
pub(super) struct Wanted {
    /// The first prompt position looked at; negative for none.
    pub(super) start: i64,
    /// How many likeliest tokens.
    pub(super) top: i64,
    /// Tokens of interest.
    pub(super) token_ids: Vec<i64>,
}

pub(super) fn request(wanted: Wanted) -> Result<Arc<LogProbRequest>, ApiError> {
    if wanted.top < 0 {
        return Err(ApiError::Invalid(format!(
            "the number of top log-probabilities must not be negative, got {}.",
            wanted.top
        )));
    }
    // The engine knows how many are too many.
    let top = u32::try_from(wanted.top).unwrap_or(u32::MAX);
    Ok(Arc::new(LogProbRequest {
        start: u32::try_from(wanted.start).ok(),
        top,
        token_ids: tokens("token_ids_logprob", wanted.token_ids)?,
    }))
}

/// Tokens as the engine counts them; what it does not know it refuses itself.
pub(super) fn tokens(name: &str, ids: Vec<i64>) -> Result<Vec<Token>, ApiError> {
    let convert = |id| {
        Token::try_from(id)
            .map_err(|_| ApiError::Invalid(format!("{name} contains {id}, which is no token.")))
    };
    ids.into_iter().map(convert).collect()
}
