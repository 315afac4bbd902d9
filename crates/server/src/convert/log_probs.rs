use std::sync::Arc;

use protocol::json::OneOrMany;
use sampling::{LogProbRequest, Token};

use crate::error::ApiError;

/// What a request wants to know about probabilities.
pub(super) struct Wanted {
    /// The first prompt position looked at; negative for none.
    pub(super) start: i64,
    /// How many likeliest tokens.
    pub(super) top: i64,
    /// Tokens of interest.
    pub(super) token_ids: Vec<Token>,
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
        token_ids: wanted.token_ids,
    }))
}

/// Tokens as the engine counts them; what it does not know it refuses itself.
pub(super) fn tokens(name: &str, ids: &[i64]) -> Result<Vec<Token>, ApiError> {
    let convert = |&id: &i64| {
        Token::try_from(id)
            .map_err(|_| ApiError::Invalid(format!("{name} contains {id}, which is no token.")))
    };
    ids.iter().map(convert).collect()
}

/// Refuses lists of tokens of interest for a single prompt, and tokens beyond the vocabulary.
pub(super) fn check_chosen(
    chosen: Option<&OneOrMany<Vec<i64>>>,
    is_list: bool,
    vocabulary: usize,
) -> Result<(), ApiError> {
    let lists = match chosen {
        None => return Ok(()),
        Some(OneOrMany::One(list)) => std::slice::from_ref(list),
        Some(OneOrMany::Many(lists)) if is_list => lists.as_slice(),
        Some(OneOrMany::Many(_)) => {
            return Err(ApiError::invalid(
                "token_ids_logprob: expected a list of integers for a single prompt, got a list of lists",
            ));
        }
    };
    let known = |id: &i64| usize::try_from(*id).is_ok_and(|id| id < vocabulary);
    match lists.iter().flatten().find(|id| !known(id)) {
        None => Ok(()),
        Some(id) => Err(ApiError::Invalid(format!(
            "token_ids_logprob contains {id}, the vocabulary has {vocabulary} tokens."
        ))),
    }
}
