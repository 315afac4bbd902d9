use axum::Json;
use axum::extract::State;
use protocol::json::OneOrMany;
use protocol::native::{
    DetokenizeRequest, DetokenizeResponse, Each, TokenizeRequest, TokenizeResponse,
};
use sampling::Token;
use text::Tokenizer;

use crate::error::{ApiError, OpenAiError};
use crate::extract::NativeJson;
use crate::start::NO_TOKENIZER;
use crate::state::{self, Shared};

/// Work on more than this is done where it keeps nobody waiting.
const INLINE: usize = 4 << 10;

/// `/tokenize`
pub(crate) async fn tokenize(
    State(state): State<Shared>,
    NativeJson(request): NativeJson<TokenizeRequest>,
) -> Result<Json<TokenizeResponse>, OpenAiError> {
    let tokenizer = tokenizer(&state)?;
    let prompts = request
        .prompt
        .ok_or_else(|| ApiError::invalid("prompt: field required"))?;
    let add_special = request.add_special_tokens.unwrap_or(true);
    let length = match &prompts {
        OneOrMany::One(text) => text.len(),
        OneOrMany::Many(texts) => texts.iter().map(String::len).sum(),
    };
    let encode = move || -> Result<_, ApiError> {
        let texts = match &prompts {
            OneOrMany::One(text) => std::slice::from_ref(text),
            OneOrMany::Many(texts) => texts.as_slice(),
        };
        let lists = texts.iter().map(|text| tokenizer.encode(text, add_special));
        Ok((lists.collect::<Result<Vec<_>, _>>()?, prompts))
    };
    let (lists, prompts) = off_thread(length, encode).await?;
    let counts = lists.iter().map(Vec::len).collect();
    Ok(Json(TokenizeResponse {
        count: Each::like(&prompts, counts),
        tokens: Each::like(&prompts, lists),
        max_model_len: state.context_length(),
    }))
}

/// `/detokenize`
pub(crate) async fn detokenize(
    State(state): State<Shared>,
    NativeJson(request): NativeJson<DetokenizeRequest>,
) -> Result<Json<DetokenizeResponse>, OpenAiError> {
    let tokenizer = tokenizer(&state)?;
    let lists = request
        .tokens
        .ok_or_else(|| ApiError::invalid("tokens: field required"))?;
    let skip_special = request.skip_special_tokens.unwrap_or(true);
    let vocabulary = state.vocabulary();
    let decode = move |ids: &Vec<i64>| -> Result<String, ApiError> {
        let known = |&id: &i64| {
            Token::try_from(id)
                .ok()
                .filter(|&id| (id as usize) < vocabulary)
        };
        let token = |id| {
            let message =
                || format!("tokens contains {id}, the vocabulary has {vocabulary} tokens.");
            known(id).ok_or_else(|| ApiError::Invalid(message()))
        };
        let tokens = ids.iter().map(token).collect::<Result<Vec<_>, _>>()?;
        Ok(tokenizer.decode(&tokens, skip_special))
    };
    let text = match lists {
        OneOrMany::One(ids) => Each::One(off_thread(ids.len(), move || decode(&ids)).await?),
        OneOrMany::Many(lists) => {
            let length = lists.iter().map(Vec::len).sum();
            let all = move || lists.iter().map(decode).collect::<Result<_, _>>();
            Each::Many(off_thread(length, all).await?)
        }
    };
    Ok(Json(DetokenizeResponse { text }))
}

fn tokenizer(state: &state::State) -> Result<Tokenizer, ApiError> {
    let text = state
        .text
        .as_ref()
        .ok_or_else(|| ApiError::invalid(NO_TOKENIZER))?;
    Ok(text.tokenizer.clone())
}

async fn off_thread<T: Send + 'static>(
    length: usize,
    work: impl FnOnce() -> Result<T, ApiError> + Send + 'static,
) -> Result<T, ApiError> {
    if length <= INLINE {
        return work();
    }
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|error| ApiError::Failed(error.to_string()))?
}
